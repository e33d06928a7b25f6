"""The policy that TRL trains, lent to a curriculum that asks it something."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from curro.core.errors import ConfigError
from curro.core.policy import Reply, conversation_ids
from curro.core.text import prompt_text
from curro.hosts.trl.seams import end_tokens
from curro.rollout.engines.plain_generation import evaluating, generation_config, padded, up_to_end

SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""TRL's sampling settings of the rollouts, which the answers of a policy that is asked something share."""


class TrainedPolicy:
    """Answers with the main process's copy of the weights as they are now; the other processes wait.

    `transformers` generates, also where the rollouts are vLLM's: at most as many sequences at a time as this
    process has rollouts.

    Args:
        host: a `CurriculumGRPOTrainer`.

    Attributes:
        sampling: `transformers`' generation settings of the rollouts, with the tokens that end a completion.
        seconds: time spent on answers since it was last set to 0.
    """

    def __init__(self, host: Any) -> None:
        self.host, tokenizer = host, host._tokenizer
        self.seconds = 0.0
        self.sampling: dict[str, Any] = {name: getattr(host, name) for name in SAMPLING}
        self.sampling |= {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": end_tokens(host),
        }

    def prompt(self, number: int) -> str:
        """The row's prompt; of a conversation the text of all messages but the system's."""
        return prompt_text(self.host.train_dataset[number]["prompt"], "\n\n")

    def backbone(self) -> tuple[Any, Any]:
        """A copy of the model as it is now without its head, adapters merged, and the tokenizer."""
        model = self.host.accelerator.unwrap_model(self.host.model)
        if hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        # TRL binds the whole model's `forward` to it: a copy of the whole would run the trained one
        return copy.deepcopy(model.base_model), self.host._tokenizer

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer to each conversation, as `Policy.answer`.

        Conversations go through the chat template, if the tokenizer has one; else the messages' texts are
        joined by blank lines.

        Raises:
            ConfigError: the weights are split over processes in another way than by FSDP2.
        """
        since = time.perf_counter()
        host, tokenizer = self.host, self.host._tokenizer
        options = {**host.chat_template_kwargs, "chat_template": host.chat_template}
        asked = [conversation_ids(tokenizer, messages, **options) for messages in conversations]
        sampling = self.sampling | {"do_sample": True, "disable_compile": True}
        ends = set(self.sampling["eos_token_id"])
        answered = [
            up_to_end(tokens, ends)
            for output, prompt in self._generated(asked, max_tokens, **sampling)
            for tokens in output[:, prompt:].tolist()
        ]
        texts = tokenizer.batch_decode(answered, skip_special_tokens=True) if answered else []
        self.seconds += time.perf_counter() - since
        return [
            Reply(text, tuple(ids), tuple(tokens))
            for text, ids, tokens in zip(texts, asked, answered, strict=True)
        ]

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """Entropies in nats, float32 (P, 2), of the first two tokens after prompts, as `Policy.entropies`.

        Raises:
            ConfigError: the weights are split in another way than by FSDP2; prompts with images.
        """
        host = self.host
        ids, images, _ = host._tokenize_prompts([host.train_dataset[int(n)]["prompt"] for n in prompts])
        if images is not None:
            raise ConfigError("entropies are of prompts of text alone, and these have images")
        options = {"min_new_tokens": 2, "output_logits": True, "return_dict_in_generate": True}
        parts = []
        for output, _ in self._generated(ids, 2, **options):
            logits = torch.stack(output.logits, 1).float() / self.sampling["temperature"]
            parts.append(torch.special.entr(logits.softmax(-1)).sum(-1))
        return torch.cat(parts).cpu().numpy()

    def _generated(self, ids: list[list[int]], tokens: int, **options: Any) -> Iterator[tuple[Any, int]]:
        """What `generate` returns of some prompts after others, and their length with padding.

        Args:
            tokens: at most so many new ones.
            options: of `generation_config`.
        """
        host, accelerator = self.host, self.host.accelerator
        rows = host.args.generation_batch_size // accelerator.num_processes
        with host.main_process.whole_model() as whole:
            model = accelerator.unwrap_model(whole)
            config = generation_config(model, host._tokenizer, tokens, **options)
            with evaluating(model), torch.no_grad(), accelerator.autocast():
                for start in range(0, len(ids), rows):
                    inputs = padded(ids[start : start + rows], config.pad_token_id, accelerator.device)
                    output = model.generate(**inputs, generation_config=config)
                    yield output, inputs["input_ids"].shape[1]

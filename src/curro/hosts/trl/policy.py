"""The policy that TRL trains, lent to a curriculum that asks it something."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from trl.models import unwrap_model_for_generation

from curro.core.errors import ConfigError
from curro.core.policy import Reply, conversation_ids
from curro.core.text import prompt_text
from curro.hosts.trl.seams import end_tokens
from curro.reward.environments.environment import Environment
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.plain_generation import (
    evaluating,
    generation_config,
    padded,
    up_to_end,
)
from curro.rollout.sampling import attempts, beside_training


def uncounted_rewards(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    score: Callable[..., Sequence[float | None]],
    *,
    environment: Environment | None,
    samples: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> np.ndarray:
    """Rewards (P, samples) by a reward function of TRL's kind, as `Policy.uncounted_rewards`."""
    with beside_training(model, seed):
        texts, played = attempts(
            model,
            tokenizer,
            list(rows),
            environment=environment,
            n=samples,
            settings=SamplingSettings(max_new_tokens, temperature),
        )
    columns = {name: [row[name] for row in played] for name in played[0] if name != "prompt"}
    rewards = score(prompts=[row["prompt"] for row in played], completions=texts, **columns)
    return np.array([np.nan if reward is None else reward for reward in rewards]).reshape(len(rows), -1)


SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""TRL's sampling settings of the rollouts, which the answers of a policy that is asked something share."""


class TrainedPolicy:
    """Answers with the main process's copy of the weights as they are now; the other processes wait.

    Answers are sampled by `transformers`, also where the rollouts are vLLM's, with the temperature, top-p and
    the like of the rollouts.

    Args:
        host: a `CurriculumGRPOTrainer`.

    Attributes:
        sampling: `transformers`' generation settings of the rollouts, with the tokens that end a completion.
        seconds: time spent on answers since it was last set to 0.
    """

    def __init__(self, host: Any) -> None:
        self._host, tokenizer = host, host._tokenizer
        self.seconds = 0.0
        self.sampling: dict[str, Any] = {name: getattr(host, name) for name in SAMPLING}
        self.sampling |= {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": end_tokens(host),
        }

    @property
    def _rows(self) -> int:
        """Sequences that a process generates or reads at a time."""
        return self._host.args.generation_batch_size // self._host.accelerator.num_processes

    def prompt(self, number: int) -> str:
        """The row's prompt; of a conversation the text of all messages but the system's."""
        return prompt_text(self._host.train_dataset[number]["prompt"], "\n\n")

    def uncounted_rewards(self, prompts: Sequence[int], samples: int, seed: int) -> np.ndarray:
        """Rewards (P, samples) of the policy as it is; training's own random numbers are left alone."""
        host = self._host
        (score,) = host.reward_funcs
        with host.main_process.whole_model() as model:
            return uncounted_rewards(
                host.accelerator.unwrap_model(model),
                host._tokenizer,
                [dict(host.train_dataset[int(number)]) for number in prompts],
                score,
                environment=host.environment,
                samples=samples,
                max_new_tokens=host.max_completion_length,
                temperature=self.sampling["temperature"],
                seed=seed,
            )

    def backbone(self) -> tuple[Any, Any]:
        """A copy of the model as it is now without its head, adapters merged, and the tokenizer."""
        model = self._host.accelerator.unwrap_model(self._host.model)
        if hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        # TRL binds the whole model's `forward` to it: a copy of the whole would run the trained one
        return copy.deepcopy(model.base_model), self._host._tokenizer

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer to each conversation, at most as many at a time as this process's rollouts.

        Conversations go through the chat template, if the tokenizer has one; else the messages' texts are
        joined by blank lines.

        Raises:
            ConfigError: the weights are split over processes in another way than by FSDP2.
        """
        since = time.perf_counter()
        host, rows, tokenizer = self._host, self._rows, self._host._tokenizer
        options = {**host.chat_template_kwargs, "chat_template": host.chat_template}
        checkpointing = {
            name: getattr(host.args, name)
            for name in inspect.signature(unwrap_model_for_generation).parameters
            if name == "gradient_checkpointing_kwargs"  # from TRL 1.14 on
        }
        asked = [conversation_ids(tokenizer, messages, **options) for messages in conversations]
        answered: list[list[int]] = []
        sampling = self.sampling | {"max_new_tokens": max_tokens, "do_sample": True}
        with (
            host.main_process.whole_model() as whole,
            unwrap_model_for_generation(
                whole,
                host.accelerator,
                generation_kwargs=sampling,  # else the model's own settings fill gaps
                **checkpointing,
            ) as model,
            evaluating(model),
        ):
            for start in range(0, len(asked), rows):
                answered += self._generate(model, asked[start : start + rows], sampling)
        texts = tokenizer.batch_decode(answered, skip_special_tokens=True) if answered else []
        self.seconds += time.perf_counter() - since
        return [
            Reply(text, tuple(ids), tuple(tokens))
            for text, ids, tokens in zip(texts, asked, answered, strict=True)
        ]

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """Entropies in nats, float32 (P, 2), of the first token after each prompt and of the second after the
        likeliest first; `Policy.entropies`. As many prompts are read at a time as this process has rollouts.

        Raises:
            ConfigError: the weights are split in another way than by FSDP2; prompts with images.
        """
        ids, rows = self._prompt_ids(prompts), self._rows
        parts = []
        with self._evaluating() as model:
            config = generation_config(
                model,
                self._host._tokenizer,
                2,
                min_new_tokens=2,
                output_logits=True,
                return_dict_in_generate=True,
            )
            for start in range(0, len(ids), rows):
                inputs = padded(ids[start : start + rows], config.pad_token_id, model.device)
                logits = model.generate(**inputs, generation_config=config).logits
                probabilities = (torch.stack(logits, 1).float() / self.sampling["temperature"]).softmax(-1)
                parts.append(torch.special.entr(probabilities).sum(-1))
        return torch.cat(parts).cpu().numpy()

    def _prompt_ids(self, prompts: Sequence[int]) -> list[list[int]]:
        """The tokens of the data set's prompts, by number: TRL's, chat template and all."""
        host = self._host
        ids, images, _ = host._tokenize_prompts([host.train_dataset[int(n)]["prompt"] for n in prompts])
        if images is not None:
            raise ConfigError("entropies are of prompts of text alone, and these have images")
        return ids

    @contextmanager
    def _evaluating(self) -> Iterator[Any]:
        """The model without its wrappers, with all weights, in evaluation mode and without gradients."""
        accelerator = self._host.accelerator
        with self._host.main_process.whole_model() as whole:
            model = accelerator.unwrap_model(whole)
            with evaluating(model), torch.no_grad(), accelerator.autocast():
                yield model

    def _generate(self, model: Any, asked: list[list[int]], sampling: dict[str, Any]) -> list[list[int]]:
        """The tokens after each prompt, up to and with the first end of sequence."""
        inputs = padded(asked, self._host._tokenizer.pad_token_id, self._host.accelerator.device)
        with torch.no_grad():
            output = model.generate(
                **inputs, generation_config=GenerationConfig(**sampling, disable_compile=True)
            )
        answers = output[:, inputs["input_ids"].shape[1] :].tolist()
        return [up_to_end(tokens, set(sampling["eos_token_id"])) for tokens in answers]

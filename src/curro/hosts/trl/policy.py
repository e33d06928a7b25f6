"""The policy that TRL trains, lent to a curriculum that asks it something."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from transformers import GenerationConfig
from trl.models import unwrap_model_for_generation
from trl.trainer.utils import pad

from curro.errors import ConfigError
from curro.lessons import Reply

if TYPE_CHECKING:
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer


class TrainedPolicy:
    """Answers with the owner's copy of the weights as they are now; the other processes wait.

    Answers are sampled by `transformers`, also where the rollouts are vLLM's, with the temperature, top-p and
    the like of the rollouts.

    Attributes:
        seconds: spent on answers since it was last set to 0.
    """

    def __init__(self, trainer: CurriculumGRPOTrainer) -> None:
        self.trainer = trainer
        self.seconds = 0.0

    def prompt(self, number: int) -> str:
        """The row's prompt; of a conversation the text of all messages but the system's."""
        prompt = self.trainer.train_dataset[number]["prompt"]
        if isinstance(prompt, str):
            return prompt
        return "\n\n".join(_text(message["content"]) for message in prompt if message["role"] != "system")

    def backbone(self) -> tuple[Any, Any]:
        """A copy of the model as it is now without its head, adapters merged, and the tokenizer."""
        model = self._trainer.accelerator.unwrap_model(self.trainer.model)
        if hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        # TRL binds the whole model's `forward` to it: a copy of the whole would run the trained one
        return copy.deepcopy(model.base_model), self._trainer._tokenizer

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer to each conversation, at most as many at a time as this process's rollouts.

        Conversations go through the chat template, if the tokenizer has one; else the messages' texts are
        joined by blank lines.

        Raises:
            ConfigError: the weights are split over processes (FSDP, DeepSpeed): none can answer alone.
        """
        self._refuse_split_weights()
        since = time.perf_counter()
        rows = self._rows
        asked = self._tokenize(conversations)
        answered: list[list[int]] = []
        sampling = self._sampling(max_tokens)
        with unwrap_model_for_generation(
            self._trainer.model_wrapped,
            self.trainer.accelerator,
            generation_kwargs=sampling,  # else the model's own settings fill gaps
            gradient_checkpointing_kwargs=self._trainer.args.gradient_checkpointing_kwargs,
        ) as model:
            training = model.training
            model.eval()
            try:
                for start in range(0, len(asked), rows):
                    answered += self._generate(model, asked[start : start + rows], sampling)
            finally:
                model.train(training)
        tokenizer = self._trainer._tokenizer
        texts = tokenizer.batch_decode(answered, skip_special_tokens=True) if answered else []
        self.seconds += time.perf_counter() - since
        return [
            Reply(text, tuple(ids), tuple(tokens))
            for text, ids, tokens in zip(texts, asked, answered, strict=True)
        ]

    def hidden_states(self, prompts: Sequence[int]) -> np.ndarray:
        """The last hidden states, float32 (P, D), of the last tokens of the data set's prompts.

        Tokens are TRL's, chat template and all. At most as many prompts are read at a time as this process
        has rollouts, padded on the right, where a causal model does not look.

        Raises:
            ConfigError: the weights are split over processes (FSDP, DeepSpeed); prompts with images.
        """
        self._refuse_split_weights()
        trainer = self._trainer
        ids, images, _ = trainer._tokenize_prompts([self.trainer.train_dataset[n]["prompt"] for n in prompts])
        if images is not None:
            raise ConfigError("hidden states are of prompts of text alone, and these have images")
        model = trainer.accelerator.unwrap_model(trainer.model)
        # the whole model's `forward` is TRL's and the accelerator's, for training
        backbone = (model.get_base_model() if hasattr(model, "get_base_model") else model).base_model
        training = model.training
        model.eval()
        try:
            with torch.no_grad(), trainer.accelerator.autocast():
                parts = [
                    self._last_states(backbone, ids[start : start + self._rows])
                    for start in range(0, len(ids), self._rows)
                ]
        finally:
            model.train(training)
        return torch.cat(parts).float().cpu().numpy()

    def _last_states(self, backbone: Any, ids: list[list[int]]) -> torch.Tensor:
        prompts = [torch.tensor(tokens) for tokens in ids]
        masks = [torch.ones_like(tokens) for tokens in prompts]
        device = self.trainer.accelerator.device
        states = backbone(
            input_ids=pad(prompts, padding_value=self._trainer._tokenizer.pad_token_id).to(device),
            attention_mask=pad(masks, padding_value=0).to(device),
            use_cache=False,
        ).last_hidden_state
        last = torch.tensor([len(tokens) - 1 for tokens in ids], device=device)
        return states[torch.arange(len(ids), device=device), last]

    def _refuse_split_weights(self) -> None:
        if self._trainer.is_fsdp_enabled or self._trainer.is_deepspeed_enabled:
            raise ConfigError(
                "the main process answers for the policy and needs all of its weights: "
                "train with one process or DDP, not with FSDP or DeepSpeed"
            )

    @property
    def _rows(self) -> int:
        """Rollouts of this process in a generation."""
        return (self.trainer.args.generation_batch_size or 1) // self.trainer.accelerator.num_processes

    @property
    def _trainer(self) -> Any:
        """The trainer with what TRL keeps to itself."""
        return cast(Any, self.trainer)

    def _tokenize(self, conversations: Sequence[Sequence[dict[str, str]]]) -> list[list[int]]:
        tokenizer, template = self._trainer._tokenizer, self._trainer.chat_template
        if template or tokenizer.chat_template:
            return tokenizer.apply_chat_template(
                [list(messages) for messages in conversations],
                chat_template=template,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                **self._trainer.chat_template_kwargs,
            )["input_ids"]
        texts = ["\n\n".join(message["content"] for message in messages) for messages in conversations]
        return tokenizer([text + "\n\n" for text in texts])["input_ids"]

    def _sampling(self, max_tokens: int) -> dict[str, Any]:
        trainer = self._trainer
        return {
            "max_new_tokens": max_tokens,
            "do_sample": True,
            "temperature": trainer.temperature,
            "top_p": trainer.top_p,
            "top_k": trainer.top_k,
            "min_p": trainer.min_p,
            "repetition_penalty": trainer.repetition_penalty,
            "pad_token_id": trainer._tokenizer.pad_token_id,
            "bos_token_id": trainer._tokenizer.bos_token_id,
            "eos_token_id": trainer.eos_token_ids,
        }

    def _generate(self, model: Any, asked: list[list[int]], sampling: dict[str, Any]) -> list[list[int]]:
        """The tokens after each prompt, up to and with the first end of sequence."""
        prompts = [torch.tensor(ids) for ids in asked]
        device = self.trainer.accelerator.device
        with torch.no_grad():
            output = model.generate(
                input_ids=pad(
                    prompts, padding_value=self._trainer._tokenizer.pad_token_id, padding_side="left"
                ).to(device),
                attention_mask=pad(
                    [torch.ones_like(ids) for ids in prompts], padding_value=0, padding_side="left"
                ).to(device),
                generation_config=GenerationConfig(**sampling, disable_compile=True),
            )
        ends = set(self._trainer.eos_token_ids)
        answers = output[:, max(map(len, asked)) :].tolist()
        return [
            tokens[: next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))]
            for tokens in answers
        ]


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")

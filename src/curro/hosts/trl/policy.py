"""The policy that TRL trains, lent to a curriculum that asks it something."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from trl.models import unwrap_model_for_generation

from curro.core.errors import ConfigError
from curro.core.policy import Reply, conversation_ids
from curro.core.text import prompt_text
from curro.hosts.trl.processes import MainProcess
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


@dataclass(frozen=True)
class ModelAccess:
    """What a policy needs of TRL's trainer.

    Attributes:
        owner: of the curriculum, which has or gathers all weights.
        model: gives the model that is trained.
        prompts: gives a row of the data set by its number.
        tokenizer, template_options: of prompts and conversations.
        tokenize_prompts: TRL's `_tokenize_prompts`.
        sampling: `transformers`' generation settings of the rollouts, the tokens that end a completion too.
        environment, max_completion_length, reward_functions: of the rollouts.
        rows: how many sequences a process generates or reads at a time.
        checkpointing: the training arguments' `gradient_checkpointing_kwargs`, if TRL takes it (1.14).
    """

    owner: MainProcess
    model: Callable[[], Any]
    prompts: Callable[[int], Mapping[str, Any]]
    tokenizer: Any
    template_options: dict[str, Any]
    tokenize_prompts: Callable[[list[Any]], tuple[list[list[int]], Any, Any]]
    sampling: dict[str, Any]
    environment: Environment | None
    max_completion_length: int
    reward_functions: Sequence[Callable[..., Any]]
    rows: int
    checkpointing: dict[str, Any]

    @classmethod
    def of(cls, trainer: Any) -> ModelAccess:
        """That of a `CurriculumGRPOTrainer`."""
        tokenizer = trainer._tokenizer
        return cls(
            owner=trainer._owner,
            model=lambda: trainer.model,
            prompts=lambda number: trainer.train_dataset[number],
            tokenizer=tokenizer,
            template_options={**trainer.chat_template_kwargs, "chat_template": trainer.chat_template},
            tokenize_prompts=lambda prompts: trainer._tokenize_prompts(prompts),
            sampling={name: getattr(trainer, name) for name in SAMPLING}
            | {
                "pad_token_id": tokenizer.pad_token_id,
                "bos_token_id": tokenizer.bos_token_id,
                "eos_token_id": end_tokens(trainer),
            },
            environment=trainer.environment,
            max_completion_length=trainer.max_completion_length,
            reward_functions=trainer.reward_funcs,
            rows=trainer.args.generation_batch_size // trainer.accelerator.num_processes,
            checkpointing={
                name: getattr(trainer.args, name)
                for name in inspect.signature(unwrap_model_for_generation).parameters
                if name == "gradient_checkpointing_kwargs"
            },
        )


class TrainedPolicy:
    """Answers with the owner's copy of the weights as they are now; the other processes wait.

    Answers are sampled by `transformers`, also where the rollouts are vLLM's, with the temperature, top-p and
    the like of the rollouts.

    Attributes:
        seconds: spent on answers since it was last set to 0.
    """

    def __init__(self, access: ModelAccess) -> None:
        self.access = access
        self.seconds = 0.0

    def prompt(self, number: int) -> str:
        """The row's prompt; of a conversation the text of all messages but the system's."""
        return prompt_text(self.access.prompts(number)["prompt"], "\n\n")

    def uncounted_rewards(self, prompts: Sequence[int], samples: int, seed: int) -> np.ndarray:
        """Rewards (P, samples) of the policy as it is; training's own random numbers are left alone."""
        access = self.access
        (score,) = access.reward_functions
        with access.owner.whole_model() as model:
            return uncounted_rewards(
                access.owner.accelerator.unwrap_model(model),
                access.tokenizer,
                [dict(access.prompts(int(number))) for number in prompts],
                score,
                environment=access.environment,
                samples=samples,
                max_new_tokens=access.max_completion_length,
                temperature=access.sampling["temperature"],
                seed=seed,
            )

    def backbone(self) -> tuple[Any, Any]:
        """A copy of the model as it is now without its head, adapters merged, and the tokenizer."""
        model = self.access.owner.accelerator.unwrap_model(self.access.model())
        if hasattr(model, "merge_and_unload"):
            model = copy.deepcopy(model).merge_and_unload()
        # TRL binds the whole model's `forward` to it: a copy of the whole would run the trained one
        return copy.deepcopy(model.base_model), self.access.tokenizer

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """One sampled answer to each conversation, at most as many at a time as this process's rollouts.

        Conversations go through the chat template, if the tokenizer has one; else the messages' texts are
        joined by blank lines.

        Raises:
            ConfigError: the weights are split over processes in another way than by FSDP2.
        """
        since = time.perf_counter()
        rows, tokenizer = self.access.rows, self.access.tokenizer
        options = self.access.template_options
        asked = [conversation_ids(tokenizer, messages, **options) for messages in conversations]
        answered: list[list[int]] = []
        sampling = self.access.sampling | {"max_new_tokens": max_tokens, "do_sample": True}
        with (
            self.access.owner.whole_model() as whole,
            unwrap_model_for_generation(
                whole,
                self.access.owner.accelerator,
                generation_kwargs=sampling,  # else the model's own settings fill gaps
                **self.access.checkpointing,
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
        ids, access = self._prompt_ids(prompts), self.access
        parts = []
        with self._evaluating() as model:
            config = generation_config(
                model, access.tokenizer, 2, min_new_tokens=2, output_logits=True, return_dict_in_generate=True
            )
            for start in range(0, len(ids), access.rows):
                inputs = padded(ids[start : start + access.rows], config.pad_token_id, model.device)
                logits = model.generate(**inputs, generation_config=config).logits
                probabilities = (torch.stack(logits, 1).float() / access.sampling["temperature"]).softmax(-1)
                parts.append(torch.special.entr(probabilities).sum(-1))
        return torch.cat(parts).cpu().numpy()

    def _prompt_ids(self, prompts: Sequence[int]) -> list[list[int]]:
        """The tokens of the data set's prompts, by number: TRL's, chat template and all."""
        ids, images, _ = self.access.tokenize_prompts([self.access.prompts(n)["prompt"] for n in prompts])
        if images is not None:
            raise ConfigError("entropies are of prompts of text alone, and these have images")
        return ids

    @contextmanager
    def _evaluating(self) -> Iterator[Any]:
        """The model without its wrappers, with all weights, in evaluation mode and without gradients."""
        accelerator = self.access.owner.accelerator
        with self.access.owner.whole_model() as whole:
            model = accelerator.unwrap_model(whole)
            with evaluating(model), torch.no_grad(), accelerator.autocast():
                yield model

    def _generate(self, model: Any, asked: list[list[int]], sampling: dict[str, Any]) -> list[list[int]]:
        """The tokens after each prompt, up to and with the first end of sequence."""
        inputs = padded(asked, self.access.tokenizer.pad_token_id, self.access.owner.accelerator.device)
        with torch.no_grad():
            output = model.generate(
                **inputs, generation_config=GenerationConfig(**sampling, disable_compile=True)
            )
        answers = output[:, inputs["input_ids"].shape[1] :].tolist()
        return [up_to_end(tokens, set(sampling["eos_token_id"])) for tokens in answers]

"""What TRL's trainers get: rows, reward functions and how they compute."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainingArguments

from curro.data.prompt_set import PromptSet
from curro.reward import Reward, trl_reward
from curro.reward.adapters import completion_text, facts
from curro.reward.reward import Score


def device_arguments(
    config: type[TrainingArguments], rows: int, device_batch: int | None, precision: str | None = None
) -> dict[str, Any]:
    """Arguments of `config` for updates of `rows` rows on this machine: in bfloat16 on a GPU if there is one.

    Args:
        device_batch: rows that are computed at once; None: all.
        precision: "bfloat16" or "float32", whatever the machine.
    """
    device_batch, has_gpu = device_batch or rows, torch.cuda.is_available()
    name = "activation_checkpointing"
    if name not in config.__dataclass_fields__:  # an older transformers
        name = "gradient_checkpointing"
    return {
        "per_device_train_batch_size": device_batch,
        "gradient_accumulation_steps": rows // device_batch,
        "use_cpu": not has_gpu,
        "bf16": has_gpu if precision is None else precision == "bfloat16",
        "dataloader_pin_memory": has_gpu,
        "disable_tqdm": True,
        # on a GPU memory is saved at the cost of a second forward pass; the numbers are the same
        name: has_gpu,
    }


def training_set(prompts: PromptSet, *, environment: bool) -> Dataset:
    """TRL's rows: prompts, numbers and answers, which identify the data set; for episodes all columns."""
    rows = prompts.to_hf()
    if environment:
        return rows
    return rows.select_columns(
        [name for name in rows.column_names if name in ("prompt", "prompt_id", "answer")]
    )


def row_rewards(
    reward: Reward, prompts: PromptSet, ends: Collection[int], *, environment: bool
) -> list[Callable[..., Sequence[Score]]]:
    """A reward function for TRL for each of the reward's parts, named as the part.

    The functions take `training_set`'s columns and give the verifier the data set's own rows.

    Args:
        ends: the tokens that end a sequence.
    """
    if environment:
        return [trl_reward(reward)]
    latest: dict[str, Any] = {"batch": None}

    def named(completions: Sequence[Any], prompt_id: Sequence[int], ids: Any) -> dict[str, list[Score]]:
        if latest["batch"] is not completions:  # TRL asks for one part after the other
            rows = facts([dict(prompts[i]) for i in prompt_id], ids, ends)
            latest["scores"] = reward.named([completion_text(text) for text in completions], rows)
            latest["batch"] = completions
        return latest["scores"]

    def part(name: str) -> Callable[..., Sequence[Score]]:
        def function(
            *, completions: Sequence[Any], prompt_id: Sequence[int], completion_ids: Any = None, **_: Any
        ) -> Sequence[Score]:
            return named(completions, prompt_id, completion_ids)[name]

        function.__name__ = name
        return function

    return [part(name) for name in reward.weights]

"""Rows of TRL's generation output taken apart and put together in other batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from trl.trainer.utils import pad

from curro.errors import ConfigError

if TYPE_CHECKING:
    from curro.hosts.trl.trainer import CurriculumGRPOTrainer

PROMPT = ("prompt_ids", "prompt_mask")
COMPLETION = (
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "old_per_token_logps",
    "ref_per_token_logps",
    "sampling_per_token_logps",
    "importance_sampling_ratio",
)
OTHERS = ("advantages", "num_items_in_batch")


def check_mergeable(output: dict[str, Any]) -> None:
    """Refuse an output with parts that are not a row a completion.

    Raises:
        ConfigError: images, or what a newer TRL has added.
    """
    odd = sorted(set(output) - {*PROMPT, *COMPLETION, *OTHERS})
    if odd:
        raise ConfigError(
            f"admission works with text alone: TRL's batch has {', '.join(odd)}, which cannot be refilled"
        )


def rows_of(output: dict[str, Any], part: slice) -> dict[str, torch.Tensor]:
    """The rows `part`, off the accelerator, without what is counted over the batch."""
    return {
        name: value[part].cpu()
        for name, value in output.items()
        if isinstance(value, torch.Tensor) and value.ndim
    }


def merge_rows(trainer: CurriculumGRPOTrainer, parts: Sequence[dict[str, torch.Tensor]]) -> dict[str, Any]:
    """One output of the rows of several, padded as TRL pads: prompts left, completions right."""
    device, fill = trainer.accelerator.device, cast(Any, trainer)._tokenizer.pad_token_id
    output: dict[str, Any] = {}
    for name in parts[0]:
        if name not in (*PROMPT, *COMPLETION):
            output[name] = torch.cat([part[name] for part in parts]).to(device)
            continue
        mask = "prompt_mask" if name in PROMPT else "completion_mask"
        rows = [
            _trimmed(row, int(kept.sum()), left=name in PROMPT)
            for part in parts
            for row, kept in zip(part[name], part[mask], strict=True)
        ]
        blank = {"prompt_ids": fill, "completion_ids": fill, "tool_mask": 1}.get(name, 0)
        output[name] = pad(
            rows,
            padding_value=blank,
            padding_side="left" if name in PROMPT else "right",
            pad_to_multiple_of=cast(Any, trainer).pad_to_multiple_of,
        ).to(device)
    loss_mask = output["completion_mask"] * output.get("tool_mask", 1)
    output["num_items_in_batch"] = trainer.accelerator.gather(loss_mask.sum()).sum()
    return output


def _trimmed(row: torch.Tensor, length: int, *, left: bool) -> torch.Tensor:
    """A row without its padding; a row of one value, for the whole sequence, as it is."""
    length = max(length, 1)
    return row[-length:] if left else row[:length]

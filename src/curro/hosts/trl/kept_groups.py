"""Groups taken out of TRL's generation output, and put together again in other batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import pad

from curro.errors import ConfigError
from curro.verdicts import Verdict

Rows = dict[str, torch.Tensor]
Logs = dict[tuple[str, str | None], list[Any]]

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


@dataclass
class KeptGroup:
    """A group that may be trained on.

    Attributes:
        rows: its rows of TRL's output, in parts that were padded alike.
        rewards: (G, reward functions), NaN where a function returned None.
        logs: what TRL logs of its rows, by name.
        verdict: the curriculum's, of this one group.
    """

    rows: list[Rows]
    rewards: torch.Tensor
    logs: Logs
    verdict: Verdict

    def __len__(self) -> int:
        return len(self.rewards)

    def take(self, places: np.ndarray) -> KeptGroup:
        """The group with these rows alone; its verdict's arrays are of these rows."""
        logs = {name: [values[at] for at in places if at < len(values)] for name, values in self.logs.items()}
        rows = [part for place in places for part in cut(self.rows, int(place), int(place) + 1)]
        verdict = replace(
            self.verdict, advantages=self.verdict.advantages[:, places], kept=self.verdict.kept[:, places]
        )
        return KeptGroup(rows, self.rewards[torch.as_tensor(places)], logs, verdict)

    def first(self, size: int) -> KeptGroup:
        """The group with its first rows alone; its advantages stay those of the whole group."""
        return self if size >= len(self) else self.take(np.arange(size))


def check_mergeable(output: Mapping[str, Any]) -> None:
    """Refuse an output with parts that are not a row a completion.

    Raises:
        ConfigError: images, or what a newer TRL has added.
    """
    odd = sorted(set(output) - {*PROMPT, *COMPLETION, *OTHERS})
    if odd:
        raise ConfigError(
            f"admission works with text alone: TRL's batch has {', '.join(odd)}, which cannot be put "
            "together from several rounds"
        )


def rows_of(output: Mapping[str, Any]) -> Rows:
    """All rows of an output, off the accelerator, without what is counted over the batch."""
    return {
        name: value.cpu() for name, value in output.items() if isinstance(value, torch.Tensor) and value.ndim
    }


def cut(parts: Sequence[Rows], start: int, stop: int) -> list[Rows]:
    """The rows from `start` to `stop`, counted over all parts."""
    found, before = [], 0
    for part in parts:
        size = len(next(iter(part.values())))
        first, last = max(start - before, 0), min(stop - before, size)
        if first < last:
            found.append({name: value[first:last] for name, value in part.items()})
        before += size
    return found


def fitted(groups: Sequence[KeptGroup], rows: int) -> list[KeptGroup]:
    """The groups, the last one cut so that all have so many rows together."""
    *whole, last = groups
    return [*whole, last.first(rows - sum(map(len, whole)))]


def merge_rows(
    parts: Sequence[Rows], *, device: torch.device, pad_token: int, pad_to_multiple_of: int | None
) -> dict[str, Any]:
    """One output of the rows of several, padded as TRL pads: prompts left, completions right."""
    output: dict[str, Any] = {}
    for name in parts[0]:
        if name not in (*PROMPT, *COMPLETION):
            output[name] = torch.cat([part[name] for part in parts]).to(device)
            continue
        blank = {"prompt_ids": pad_token, "completion_ids": pad_token, "tool_mask": 1}.get(name, 0)
        output[name] = pad(
            list(_trimmed(parts, name)),
            padding_value=blank,
            padding_side="left" if name in PROMPT else "right",
            pad_to_multiple_of=pad_to_multiple_of,
        ).to(device)
    return output


def count_tokens(output: Mapping[str, Any]) -> torch.Tensor:
    """How many of this process's tokens are trained on."""
    return (output["completion_mask"] * output.get("tool_mask", 1)).sum()


def _trimmed(parts: Sequence[Rows], name: str) -> Iterator[torch.Tensor]:
    """The rows without their padding; a row of one value, for the whole sequence, as it is."""
    mask = "prompt_mask" if name in PROMPT else "completion_mask"
    for part in parts:
        for row, kept in zip(part[name], part[mask], strict=True):
            length = max(int(kept.sum()), 1)
            yield row[-length:] if name in PROMPT else row[:length]

"""Groups taken out of TRL's generation output and put together again as batches; TRL's metrics of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import pad

from curro.core.errors import ConfigError
from curro.core.verdicts import Verdict
from curro.runs.writer import Completion

OutputRows = dict[str, torch.Tensor]
GroupLogs = dict[tuple[str, str | None], list[Any]]
TRLMetrics = defaultdict[str, list[float]]

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
LENGTHS = "completion_lengths"
"""Our own column of rows, the tokens of each completion: TRL's mask of a truncated one may be empty."""


@dataclass(frozen=True)
class GeneratedRollouts:
    """Rollouts of given prompts, scored.

    Attributes:
        output: TRL's, of this process's rollouts.
        lengths: how many tokens the completions of this process's rollouts have.
        rewards: (rollouts, reward functions) of all processes, NaN where a function returned None.
        completions: what was generated, of all processes.
    """

    output: dict[str, Any]
    lengths: Sequence[int]
    rewards: torch.Tensor
    completions: Sequence[Completion]


def as_factors(verdicts: Sequence[Verdict], sums_normalized_parts: bool) -> list[Verdict]:
    """The verdicts with advantages of 1, and of 0 for rollouts whose advantages of TRL's own do not count.

    The credit of these is what TRL's advantages are multiplied by. Rollouts without credit do not count, nor
    do those of flat groups, which have 0 or what TRL's rounding leaves. With `sums_normalized_parts` a group
    whose rewards are flat counts too, because the parts may vary where their sum does not.
    """
    factors = []
    for verdict in verdicts:
        varies_P = (verdict.advantages != 0).any(axis=1) | sums_normalized_parts
        counts_PG = verdict.credited & varies_P[:, None]
        factors.append(replace(verdict, advantages=counts_PG.astype(np.float64)))
    return factors


@dataclass
class KeptGroup:
    """A group that may be trained on.

    Attributes:
        rows: its rows of TRL's output, in parts that were padded alike.
        rewards: (G, reward functions), NaN where a function returned None.
        logs: what TRL logs of its rows, by name.
        verdict: the curriculum's, of this one group.
        variance: of the rewards that are trained on, of the whole group; the verdict has the signal's.
    """

    rows: list[OutputRows]
    rewards: torch.Tensor
    logs: GroupLogs
    verdict: Verdict
    variance: float

    def __len__(self) -> int:
        return len(self.rewards)

    def take(self, columns: np.ndarray) -> KeptGroup:
        """The group with these rows alone; its verdict's arrays are of these rows."""
        logs = {
            name: [values[at] for at in columns if at < len(values)] for name, values in self.logs.items()
        }
        rows = [part for column in columns for part in cut(self.rows, int(column), int(column) + 1)]
        verdict = replace(
            self.verdict,
            advantages=self.verdict.advantages[:, columns],
            credited=self.verdict.credited[:, columns],
        )
        return KeptGroup(rows, self.rewards[torch.as_tensor(columns)], logs, verdict, self.variance)

    def first(self, size: int) -> KeptGroup:
        """The group with its first rows alone; its advantages stay those of the whole group."""
        return self if size >= len(self) else self.take(np.arange(size))


def check_mergeable(output: Mapping[str, Any]) -> None:
    """Refuse an output with parts that are not a row a completion."""
    odd = sorted(set(output) - {*PROMPT, *COMPLETION, *OTHERS})
    if odd:
        raise ConfigError(
            f"admission works with text alone: TRL's batch has {', '.join(odd)}, which cannot be put "
            "together from several rounds"
        )


def rows_of(output: Mapping[str, Any], lengths: Sequence[int]) -> OutputRows:
    """All rows of an output, off the accelerator, without what is counted over the batch."""
    rows = {
        name: value.cpu() for name, value in output.items() if isinstance(value, torch.Tensor) and value.ndim
    }
    return rows | {LENGTHS: torch.tensor(lengths).clamp(min=1)}


def cut(parts: Sequence[OutputRows], start: int, stop: int) -> list[OutputRows]:
    """The rows from `start` to `stop`, counted over all parts."""
    pieces, before = [], 0
    for part in parts:
        size = len(next(iter(part.values())))
        first, last = max(start - before, 0), min(stop - before, size)
        if first < last:
            pieces.append({name: value[first:last] for name, value in part.items()})
        before += size
    return pieces


def fitted(groups: Sequence[KeptGroup], rows: int) -> list[KeptGroup]:
    """The groups, the last one cut so that all have so many rows together."""
    *whole, last = groups
    return [*whole, last.first(rows - sum(map(len, whole)))]


def merge_rows(
    parts: Sequence[OutputRows], *, device: torch.device, pad_token: int, pad_to_multiple_of: int | None
) -> dict[str, Any]:
    """One output of the rows of several, padded as TRL pads: prompts left, completions right."""
    output: dict[str, Any] = {}
    for name in parts[0]:
        if name == LENGTHS:
            continue
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


def _trimmed(parts: Sequence[OutputRows], name: str) -> Iterator[torch.Tensor]:
    """The rows without their padding; a row of one value, for the whole sequence, as it is."""
    for part in parts:
        lengths = part["prompt_mask"].sum(dim=1) if name in PROMPT else part[LENGTHS]
        for row, length in zip(part[name], lengths.tolist(), strict=True):
            yield row[-length:] if name in PROMPT else row[:length]


@contextmanager
def captured_logs(
    metrics: dict[str, TRLMetrics], logs: dict[str, Any]
) -> Iterator[tuple[TRLMetrics, GroupLogs]]:
    """Give TRL empty metrics and logs to write to, and its own back at the end.

    What it yields is complete when the block has ended: TRL's metrics, and its logs by name.
    """
    usual, usual_logs = metrics["train"], dict(logs)
    group_metrics: TRLMetrics = defaultdict(list)
    columns: GroupLogs = {}
    metrics["train"] = group_metrics
    logs.update({name: defaultdict(list) if isinstance(old, dict) else [] for name, old in logs.items()})
    try:
        yield group_metrics, columns
        for name, values in logs.items():
            if isinstance(values, dict):
                columns.update({(name, inner): column for inner, column in values.items()})
            else:
                columns[name, None] = values
    finally:
        metrics["train"] = usual
        logs.clear()
        logs.update(usual_logs)


def log_batch(
    metrics: TRLMetrics, logs: Mapping[str, Any], rounds: TRLMetrics, described: Mapping[str, float],
    batch: Sequence[KeptGroup],
) -> None:  # fmt: skip
    """Write a batch into TRL's metrics and logs.

    Args:
        metrics, logs: TRL's `_metrics["train"]` and `_logs`.
        rounds: what TRL wrote in all rounds; where `described` has no number of that name, their mean counts.
        described: the numbers of the groups that are trained on.
    """
    described = dict(described)
    for name, values in rounds.items():
        if name == "num_tokens":  # TRL counts on
            metrics[name] = values[-1:]
        else:
            metrics[name].append(described.pop(name, float(np.mean(values))))
    for name, value in described.items():
        metrics[name].append(value)
    for group in batch:
        for (name, inner), column in group.logs.items():
            (logs[name] if inner is None else logs[name][inner]).extend(column)


LOGGED_METRICS = {
    "signal/mean_square_advantage",
    "signal/uniform",
    "table/unseen",
    "table/success_rate_mean",
    "admitted",
    "prediction/rank_correlation",
    "fill/given_out",
    "fill/topped_up",
}
"""What TRL logs of a curriculum's metrics by default: the signal, and what uniform sampling's would be; how
much of the data was seen, and its mean pass rate; groups kept; how well predictions rank them; with a gate,
the groups that the batch took, and how many rejected ones are in it."""


def logged_metrics(metrics: Mapping[str, float], logs_all: bool) -> dict[str, float]:
    """The metrics that TRL logs, all or those of `LOGGED_METRICS`; a number that is not known yet is not."""
    return {
        name: value
        for name, value in metrics.items()
        if (logs_all or name in LOGGED_METRICS) and not np.isnan(value)
    }


def replace_latest(logged: Any, values: Sequence[float]) -> None:
    """Put these values in the place of as many that TRL has just logged."""
    for _ in range(min(len(values), len(logged))):
        logged.pop()
    logged.extend(values)


def describe_batch(
    batch: Sequence[KeptGroup],
    names: Sequence[str],
    weights: torch.Tensor,
    is_flat: np.ndarray,
    *,
    pad_token: int,
    ends: Collection[int],
) -> dict[str, float]:
    """TRL's metrics of generation, under TRL's names, of the groups that are trained on.

    Args: as `describe_rewards` and `describe_completions` take them.
    """
    rewards = torch.cat([group.rewards for group in batch]).double()
    rows = [part for group in batch for part in group.rows]
    return describe_rewards(rewards, names, weights, is_flat) | describe_completions(
        rows, pad_token=pad_token, ends=ends
    )


def describe_rewards(
    rewards: torch.Tensor, names: Sequence[str], weights: torch.Tensor, is_flat: np.ndarray
) -> dict[str, float]:
    """TRL's metrics of rewards, under TRL's names.

    Args:
        rewards: float64 (rollouts, functions), NaN where a function returned None.
        names, weights: of the functions.
        is_flat: bool (P,), which groups' weighted sums have no variance.
    """
    reward_metrics: dict[str, float] = {}
    for i, name in enumerate(names):
        column = rewards[:, i][~rewards[:, i].isnan()]
        reward_metrics[f"rewards/{name}/mean"] = float(column.mean()) if len(column) else np.nan
        reward_metrics[f"rewards/{name}/std"] = float(column.std()) if len(column) > 1 else np.nan
    summed = (rewards * weights).nansum(dim=1)[~rewards.isnan().all(dim=1)]
    reward_metrics["reward"], reward_metrics["reward_std"] = float(summed.mean()), float(summed.std())
    reward_metrics["frac_reward_zero_std"] = float(np.mean(is_flat))
    return reward_metrics


def describe_completions(
    rows: Sequence[OutputRows], *, pad_token: int, ends: Collection[int]
) -> dict[str, float]:
    """TRL's metrics of completions, under TRL's names."""
    last = torch.cat([part["completion_ids"].gather(1, part[LENGTHS][:, None] - 1)[:, 0] for part in rows])
    ended = torch.isin(last, torch.tensor([*ends, pad_token]))
    observed = torch.cat([_observed(part) for part in rows])
    lengths = torch.cat([part[LENGTHS] for part in rows]).double() - observed
    finished = lengths[ended] if ended.any() else torch.zeros(1)
    length_metrics = {"completions/clipped_ratio": float(1 - ended.double().mean())}
    statistics: dict[str, Callable[[torch.Tensor], Any]] = {
        "mean": torch.mean,
        "min": torch.min,
        "max": torch.max,
    }
    for name, values in (("", lengths), ("_terminated", finished)):
        length_metrics |= {
            f"completions/{kind}{name}_length": float(of(values)) for kind, of in statistics.items()
        }
    return length_metrics


def _observed(rows: OutputRows) -> torch.Tensor:
    """Tokens of observations in each completion, which TRL does not count."""
    mask = rows["completion_mask"]
    return (mask * (1 - rows["tool_mask"])).sum(dim=1) if "tool_mask" in rows else mask.new_zeros(len(mask))

"""TRL's metrics and logs of a batch that was filled in rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from curro.hosts.trl.kept_groups import KeptGroup, Logs, Rows

Metrics = defaultdict[str, list[float]]


@contextmanager
def apart(metrics: dict[str, Metrics], logs: dict[str, Any]) -> Iterator[tuple[Metrics, Logs]]:
    """Let TRL write what it writes meanwhile into books of their own, which are complete at the end.

    Args:
        metrics, logs: TRL's `_metrics` and `_logs`.
    """
    usual, usual_logs = metrics["train"], dict(logs)
    found: Metrics = defaultdict(list)
    columns: Logs = {}
    metrics["train"] = found
    logs.update({name: defaultdict(list) if isinstance(old, dict) else [] for name, old in logs.items()})
    try:
        yield found, columns
        for name, values in logs.items():
            if isinstance(values, dict):
                columns.update({(name, inner): column for inner, column in values.items()})
            else:
                columns[name, None] = values
    finally:
        metrics["train"] = usual
        logs.clear()
        logs.update(usual_logs)


def write(
    metrics: Metrics, logs: Mapping[str, Any], rounds: Metrics, described: Mapping[str, float],
    batch: Sequence[KeptGroup],
) -> None:  # fmt: skip
    """Write a batch into TRL's books.

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
        is_flat: bool (P,), which groups have no variance.
    """
    found: dict[str, float] = {}
    for i, name in enumerate(names):
        column = rewards[:, i][~rewards[:, i].isnan()]
        found[f"rewards/{name}/mean"] = float(column.mean()) if len(column) else np.nan
        found[f"rewards/{name}/std"] = float(column.std()) if len(column) > 1 else np.nan
    summed = (rewards * weights).nansum(dim=1)[~rewards.isnan().all(dim=1)]
    found["reward"], found["reward_std"] = float(summed.mean()), float(summed.std())
    found["frac_reward_zero_std"] = float(np.mean(is_flat))
    return found


def describe_completions(rows: Sequence[Rows], *, pad_token: int, ends: Collection[int]) -> dict[str, float]:
    """TRL's metrics of completions, under TRL's names.

    Args:
        ends: the tokens that end a completion.
    """
    ids_and_lengths = [(part["completion_ids"], _lengths(part, pad_token)) for part in rows]
    last = torch.cat([ids.gather(1, length[:, None] - 1)[:, 0] for ids, length in ids_and_lengths])
    ended = torch.isin(last, torch.tensor([*ends, pad_token]))
    observed = torch.cat([_observed(part) for part in rows])
    lengths = torch.cat([length for _, length in ids_and_lengths]).double() - observed
    finished = lengths[ended] if ended.any() else torch.zeros(1)
    found = {"completions/clipped_ratio": float(1 - ended.double().mean())}
    statistics: dict[str, Callable[[torch.Tensor], Any]] = {
        "mean": torch.mean,
        "min": torch.min,
        "max": torch.max,
    }
    for name, values in (("", lengths), ("_terminated", finished)):
        found |= {f"completions/{kind}{name}_length": float(of(values)) for kind, of in statistics.items()}
    return found


def _observed(rows: Rows) -> torch.Tensor:
    """Tokens of observations in each completion, which TRL does not count."""
    mask = rows["completion_mask"]
    return (mask * (1 - rows["tool_mask"])).sum(dim=1) if "tool_mask" in rows else mask.new_zeros(len(mask))


def _lengths(rows: Rows, pad_token: int) -> torch.Tensor:
    """Tokens a completion; TRL's mask is empty where it masks a truncated one."""
    masked = rows["completion_mask"].sum(dim=1)
    whole = (rows["completion_ids"] != pad_token).sum(dim=1)
    return torch.where(masked > 0, masked, whole).clamp(min=1).long()

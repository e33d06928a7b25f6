"""TRL's batches, taken apart into rows and put together from several rounds, and what TRL logs of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from trl.trainer.utils import pad

from curro.core.errors import ConfigError
from curro.core.verdicts import Verdict
from curro.runs.writer import Completion

OutputRow = dict[str, torch.Tensor]
Column = tuple[str, str | None]
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


@dataclass
class ScoredRow:
    """A scored rollout of one of a batch's rounds.

    Attributes:
        row: its row of TRL's output, off the accelerator and without padding.
        rewards: (reward functions,), NaN where a function returned None.
        completion: what was generated.
        logged: what TRL logged of it, by column.
    """

    row: OutputRow
    rewards: torch.Tensor
    completion: Completion
    logged: dict[Column, Any] = field(default_factory=dict)


@dataclass
class KeptGroup:
    """A group that may be trained on, the verdict on it, and the variance of its trained rewards."""

    rollouts: list[ScoredRow]
    verdict: Verdict
    variance: float

    def __len__(self) -> int:
        return len(self.rollouts)

    def first(self, size: int) -> KeptGroup:
        """The group with its first rollouts alone; its advantages stay those of the whole group."""
        verdict = replace(
            self.verdict,
            advantages=self.verdict.advantages[:, :size],
            credited=self.verdict.credited[:, :size],
        )
        return KeptGroup(self.rollouts[:size], verdict, self.variance)


def joined(
    first: Sequence[ScoredRow], sizes_P: Sequence[int], further: Sequence[ScoredRow], more_P: Sequence[int]
) -> list[ScoredRow]:
    """Put further rollouts of the same P groups, `more_P` of each, behind each group's first ones."""
    early, late = iter(first), iter(further)
    groups = zip(sizes_P, more_P, strict=True)
    return [rollout for size, more in groups for rollout in (*islice(early, size), *islice(late, more))]


def rewards_of(rollouts: Sequence[ScoredRow]) -> torch.Tensor:
    """The rewards (rollouts, functions)."""
    return torch.stack([rollout.rewards for rollout in rollouts])


def mask_of_trl_advantages(verdicts: Sequence[Verdict], sums_normalized_parts: bool) -> list[Verdict]:
    """Verdicts with advantage 1 where TRL's own advantage counts and 0 where it does not.

    Their credit then masks and weights TRL's advantages. Rollouts without credit do not count, nor do flat
    groups, in which TRL's advantages are 0 or rounding. With `sums_normalized_parts` flat groups count,
    because parts may vary where their sum does not.
    """
    factors = []
    for verdict in verdicts:
        varies_P = (verdict.advantages != 0).any(axis=1) | sums_normalized_parts
        counts_PG = verdict.credited & varies_P[:, None]
        factors.append(replace(verdict, advantages=counts_PG.astype(np.float64)))
    return factors


def rows_of_output(output: Mapping[str, Any], tokens: Sequence[int]) -> list[OutputRow]:
    """The rows of an output, off the accelerator and without padding.

    Args:
        tokens: of each completion; TRL's mask of a truncated one may be empty.

    Raises:
        ConfigError: the output has parts that are not a row a completion.
    """
    if odd := sorted(set(output) - {*PROMPT, *COMPLETION, *OTHERS}):
        raise ConfigError(
            f"admission works with text alone: TRL's batch has {', '.join(odd)}, which cannot be put "
            "together from several rounds"
        )
    tensors = {
        name: value.cpu() for name, value in output.items() if isinstance(value, torch.Tensor) and value.ndim
    }
    prompts = tensors["prompt_mask"].sum(dim=1).tolist()
    parts = [
        dict.fromkeys(PROMPT, slice(-prompt, None)) | dict.fromkeys(COMPLETION, slice(max(completion, 1)))
        for prompt, completion in zip(prompts, tokens, strict=True)
    ]
    # copies, because a part of a tensor would be sent to the other processes with the whole of it
    return [
        {name: value[i, part[name]].clone() if name in part else value[i] for name, value in tensors.items()}
        for i, part in enumerate(parts)
    ]


def merge_rows(
    rows: Sequence[OutputRow], *, device: torch.device, pad_token: int, pad_to_multiple_of: int | None
) -> dict[str, Any]:
    """One output of these rows, padded as TRL pads: prompts left, completions right."""
    output: dict[str, Any] = {}
    for name in rows[0]:
        column = [row[name] for row in rows]
        if name not in (*PROMPT, *COMPLETION):
            output[name] = torch.stack(column).to(device)
            continue
        blank = {"prompt_ids": pad_token, "completion_ids": pad_token, "tool_mask": 1}.get(name, 0)
        output[name] = pad(
            column,
            padding_value=blank,
            padding_side="left" if name in PROMPT else "right",
            pad_to_multiple_of=pad_to_multiple_of,
        ).to(device)
    return output


@contextmanager
def captured_logs(
    metrics: dict[str, TRLMetrics], logs: dict[str, Any]
) -> Iterator[tuple[TRLMetrics, dict[Column, list[Any]]]]:
    """Let TRL write into empty metrics and logs, and give it its own back at the end.

    The yielded metrics and logs by column are complete when the block has ended.
    """
    usual, usual_logs = metrics["train"], dict(logs)
    round_metrics: TRLMetrics = defaultdict(list)
    columns: dict[Column, list[Any]] = {}
    metrics["train"] = round_metrics
    logs.update({name: defaultdict(list) if isinstance(old, dict) else [] for name, old in logs.items()})
    try:
        yield round_metrics, columns
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
    batch: Sequence[ScoredRow],
) -> None:  # fmt: skip
    """Write a batch into TRL's `_metrics["train"]` and `_logs`.

    Args:
        rounds: what TRL wrote in all rounds; where `described` has no number of that name, their mean counts.
        described: the numbers of the rollouts that are trained on.
    """
    means = {name: float(np.mean(values)) for name, values in rounds.items() if name != "num_tokens"}
    for name, value in {**means, **described}.items():
        metrics[name].append(value)
    if "num_tokens" in rounds:  # TRL counts on
        metrics["num_tokens"] = rounds["num_tokens"][-1:]
    for rollout in batch:
        for (name, inner), value in rollout.logged.items():
            (logs[name] if inner is None else logs[name][inner]).append(value)


LOGGED_METRICS = {
    "admitted", "signal/mean_square_advantage", "signal/uniform", "signal/uniform_share", "table/unseen",
    "table/success_rate_mean", "prediction/rank_correlation", "fill/given_out", "fill/rejected",
    "fill/topped_up",
}  # fmt: skip
"""What TRL logs by default of a curriculum and its fill, beside the selection's own metrics."""


def log_metrics(
    metrics: TRLMetrics, values: Mapping[str, float], names: Collection[str] | None, *, prefix: str = ""
) -> None:
    """Write a curriculum's numbers into TRL's metrics, which TRL averages over its logging window.

    What is counted for each batch (`fill/...`) is summed over the window, so that the log has counts. The
    curriculum's other numbers are totals or states: the latest one counts.

    Args:
        names: which to log; None: all. Numbers that are not known yet are left out.
    """
    for name, value in values.items():
        if np.isnan(value) or not (names is None or name in names):
            continue
        is_count = name.startswith("fill/") and name != "fill/rejected_reward"
        metrics[prefix + name] = [value + sum(metrics[prefix + name]) if is_count else value]


def describe_rewards(
    rewards: torch.Tensor, names: Sequence[str], weights: torch.Tensor, is_flat: np.ndarray
) -> dict[str, float]:
    """TRL's metrics of rewards (rollouts, functions), NaN where a function returned None, by TRL's names.

    Args:
        is_flat: bool (P,), which groups' weighted sums have no variance.
    """
    rewards, weights = rewards.double().cpu(), weights.double().cpu()
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
    rows: Sequence[OutputRow], *, pad_token: int, ends: Collection[int]
) -> dict[str, float]:
    """TRL's metrics of completions, under TRL's names; tokens of observations are not counted."""
    ended = torch.tensor([int(row["completion_ids"][-1]) in (*ends, pad_token) for row in rows])
    lengths = torch.tensor([len(row["completion_ids"]) - _observed(row) for row in rows]).double()
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


def _observed(row: OutputRow) -> int:
    return int((row["completion_mask"] * (1 - row["tool_mask"])).sum()) if "tool_mask" in row else 0

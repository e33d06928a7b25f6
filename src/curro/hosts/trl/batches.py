"""A batch that is put together from the rollouts of several rounds, and what TRL logs of a curriculum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from curro.core.errors import ConfigError
from curro.core.verdicts import Verdict
from curro.runs.writer import Completion

TRLMetrics = defaultdict[str, list[float]]


class Generated(NamedTuple):
    """What TRL's `_generate` returns, each an entry a rollout of this process, or None."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    tool_mask: list[list[int]] | None
    completions: list[Any]
    logprobs: list[list[float]] | None
    extra_fields: dict[str, Any]
    images: list[Any] | None
    tool_images: list[Any] | None


class RoundEnd(Exception):
    """Leaves TRL's code when a round's rollouts are scored: the rest is for those that are trained on."""


@dataclass
class ScoredRow:
    """A scored rollout of one of a batch's rounds.

    Attributes:
        row: its row of the data set, with the prompt as an environment has completed it.
        generated: its entries of `Generated`, by the names that TRL's `rollout_func` has for them.
        message: the completion as TRL has parsed it.
        rewards: (reward functions,), NaN where a function returned None.
        completion: what was generated.
        extra: what reward functions logged of it, by column.
    """

    row: dict[str, Any]
    generated: dict[str, Any]
    message: Any
    rewards: torch.Tensor
    completion: Completion
    extra: dict[str, Any] = field(default_factory=dict)


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


def rows_of_round(
    rows: Sequence[Mapping[str, Any]],
    prompts: Sequence[Any],
    generated: Generated,
    completions: Sequence[Completion],
    extra: Mapping[str, Sequence[Any]],
) -> list[ScoredRow]:
    """This process's rollouts of a round, without their rewards.

    Args:
        extra: what reward functions have logged with TRL's `log_extra`.

    Raises:
        ConfigError: prompts or tools have given images.
    """
    if generated.images is not None or any(generated.tool_images or ()):
        raise ConfigError(
            "admission works with text alone, and these rollouts have images: leave the admission out"
        )
    columns = {
        "prompt_ids": generated.prompt_ids, "completion_ids": generated.completion_ids,
        "logprobs": generated.logprobs, "env_mask": generated.tool_mask,
    }  # fmt: skip
    return [
        ScoredRow(
            {**row, "prompt": prompts[i]},
            {name: column[i] for name, column in columns.items() if column is not None},
            generated.completions[i],
            torch.empty(0),
            completions[i],
            {name: values[i] for name, values in extra.items() if len(values) == len(rows)},
        )
        for i, row in enumerate(rows)
    ]


def as_rollouts(rows: Sequence[ScoredRow]) -> dict[str, Any]:
    """Rollouts as TRL's `rollout_func` returns them."""
    return {"logprobs": None} | {name: [row.generated[name] for row in rows] for name in rows[0].generated}


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

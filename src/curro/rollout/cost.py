"""What an admitted group will cost in rollouts, estimated from the prompt table."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.core import registry
from curro.core.admission import Gate
from curro.core.errors import ConfigError, RewardError
from curro.core.groups import Groups
from curro.core.intervals import wilson
from curro.core.prompts import PromptTable

_CHUNK = 1 << 16


@dataclass(frozen=True)
class FillCost:
    """Rollouts for one admitted group, with a 95 % interval.

    Attributes:
        rollouts: G / share; infinite where the gate admits no group that was seen, NaN where none was seen.
        low, high: the same at the upper and the lower end of the share's Wilson interval.
        share: the share of the prompts seen whose latest group the gate admits.
        seen: the number of prompts seen.
    """

    rollouts: float
    low: float
    high: float
    share: float
    seen: int

    def __str__(self) -> str:
        return (
            f"{self.rollouts:.1f} rollouts an admitted group (95 % interval {self.low:.1f} to "
            f"{self.high:.1f}): {self.share:.1%} of {self.seen} prompts seen would be admitted"
        )


def fill_cost(table: PromptTable, gate: str | Mapping[str, Any] | Gate, rollouts_per_prompt: int) -> FillCost:
    """The rollouts that one admitted group costs if the prompts to come are like those seen.

    Args:
        table: `curriculum.table`; its latest reward means and variances are what a gate is shown.
        gate: what `Curriculum(admission=...)` takes, or a `Gate`.
        rollouts_per_prompt: G.

    Raises:
        ConfigError: fewer than 1 rollout; a gate that decides by a named reward: the table does not
            remember those.
    """
    if rollouts_per_prompt < 1:
        raise ConfigError(f"a group has at least 1 rollout, not {rollouts_per_prompt}")
    bound = copy.copy(gate) if isinstance(gate, Gate) else registry.build("admission", gate)
    bound.bind(table)
    seen = np.flatnonzero(table["visits"] > 0)
    admitted = 0
    for start in range(0, len(seen), _CHUNK):
        groups = _latest_groups(table, seen[start : start + _CHUNK], rollouts_per_prompt)
        try:
            admitted += int(np.count_nonzero(bound(groups)))
        except RewardError as error:
            raise ConfigError(
                f"the cost of {gate!r} cannot be estimated: {error}, and the prompt table remembers the "
                "training reward alone; estimate with a gate on that"
            ) from error
    return cost_of_share(admitted, len(seen), rollouts_per_prompt)


def cost_of_share(admitted: int, seen: int, rollouts_per_prompt: int) -> FillCost:
    """The cost of one admitted group where a gate would admit so many of the prompts seen.

    A group of a prompt drawn at random is admitted with this share as its probability, so one admitted group
    takes 1 / share groups on average.
    """
    share = admitted / seen if seen else math.nan
    low, high = wilson(share, seen)
    return FillCost(
        rollouts=_over(rollouts_per_prompt, share),
        low=rollouts_per_prompt / high,
        high=_over(rollouts_per_prompt, low),
        share=share,
        seen=seen,
    )


def _over(rollouts: float, share: float) -> float:
    return rollouts / share if share else math.inf


def _latest_groups(table: PromptTable, prompts: np.ndarray, size: int) -> Groups:
    """Groups of `size` rollouts with the mean and the variance that the table has of these prompts."""
    mean_P = table["reward_mean"][prompts].astype(np.float64)
    variance_P = table["reward_variance"][prompts].astype(np.float64)
    # half of the rollouts above the mean, half below, one of an odd number at it
    side_G = np.where(np.arange(size) % 2, -1.0, 1.0)
    side_G[size - size % 2 :] = 0.0
    spread_P = np.sqrt(variance_P * size / max(size - size % 2, 1))
    rewards_PG = mean_P[:, None] + spread_P[:, None] * side_G
    scored_PG = np.ones(rewards_PG.shape, np.bool_)
    return Groups(prompts, table["last_step"][prompts], rewards_PG, scored_PG, mean_P, variance_P)

"""Finished rollouts as the curriculum takes them: a row a group, a column a session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Rollout:
    """The outcome of a session: what it belongs to, its reward and what the reward was made of."""

    group: str
    session: int
    reward: float
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class FinishedGroups:
    """P groups of up to G sessions.

    Attributes:
        names: of the groups, in the order in which they were asked for.
        rewards: float64 (P, G); 0 where a session is missing.
        scored: bool (P, G).
        named: float64 (P, G) each, the numbers of verl's `reward_extra_info`; NaN where there is none.
    """

    names: list[str]
    rewards: np.ndarray
    scored: np.ndarray
    named: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.names)


def assemble(names: Iterable[str], rollouts: Iterable[Rollout], size: int) -> FinishedGroups:
    """Put rollouts where they belong; sessions that failed, or whose reward is NaN, are not scored.

    Args:
        names: the groups to report on, each with at least one rollout.
        size: G where no session has a higher number.
    """
    order = list(names)
    row_of = {name: row for row, name in enumerate(order)}
    known = [rollout for rollout in rollouts if rollout.group in row_of]
    width = max([size, *(rollout.session + 1 for rollout in known)])
    rewards_PG = np.full((len(order), width), np.nan)
    named: dict[str, np.ndarray] = {}
    for rollout in known:
        place = row_of[rollout.group], rollout.session
        rewards_PG[place] = rollout.reward
        for name, value in rollout.extra.items():
            if isinstance(value, Real | np.bool_) and not math.isinf(value):
                named.setdefault(name, np.full(rewards_PG.shape, np.nan))[place] = float(value)
    scored_PG = ~np.isnan(rewards_PG)
    return FinishedGroups(order, np.where(scored_PG, rewards_PG, 0.0), scored_PG, named)

"""Finished sessions as the curriculum takes them: a row a group, a column a session."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from curro.errors import RewardError
from curro.run_writer import Completion


@dataclass(frozen=True)
class SessionOutcome:
    """A session that has ended: its group, its reward and what that was made of, and what was generated."""

    group: str
    session: int
    reward: float
    extra: Mapping[str, Any]
    completion: Completion = Completion("", 0, False)  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class Named:
    """A number of verl's `reward_extra_info` that a gate decides by.

    Attributes:
        name: its key.
        largest: beyond this size it is no number: a session whose number is NaN, infinite or larger counts
            as one that has none.
    """

    name: str
    largest: float

    def of(self, extra: Mapping[str, Any]) -> float:
        """A session's number, NaN where it has none."""
        value = extra.get(self.name)
        if isinstance(value, np.generic):
            value = value.item()
        return float(value) if isinstance(value, int | float) and abs(value) <= self.largest else math.nan


@dataclass(frozen=True)
class FinishedGroups:
    """P groups of up to G sessions.

    Attributes:
        names: of the groups, in the order in which they were asked for.
        rewards: float64 (P, G); 0 where a session is missing.
        scored: bool (P, G).
        named: float64 (P, G), the number that the gate decides by, under its name; NaN where a session has
            none. Nothing else of `reward_extra_info` is read: it may be what a model has written.
        completions: what was generated, of each group by session.
    """

    names: list[str]
    rewards: np.ndarray
    scored: np.ndarray
    named: dict[str, np.ndarray]
    completions: list[dict[int, Completion]]

    def __len__(self) -> int:
        return len(self.names)


def assemble(
    names: Iterable[str], outcomes: Iterable[SessionOutcome], size: int, named: Named | None = None
) -> FinishedGroups:
    """Put sessions where they belong; those that failed, or whose reward is NaN, are not scored.

    Args:
        names: the groups to report on, each with at least one session.
        size: G where no session has a higher number.
        named: what the gate decides by, if not by the reward.

    Raises:
        RewardError: no session has a number of that name.
    """
    order = list(names)
    row_of = {name: row for row, name in enumerate(order)}
    known = [outcome for outcome in outcomes if outcome.group in row_of]
    width = max([size, *(outcome.session + 1 for outcome in known)])
    rewards_PG = np.full((len(order), width), np.nan)
    part_PG = np.full_like(rewards_PG, np.nan)
    completions: list[dict[int, Completion]] = [{} for _ in order]
    for outcome in known:
        place = row_of[outcome.group], outcome.session
        rewards_PG[place] = outcome.reward
        completions[place[0]][place[1]] = outcome.completion
        if named is not None:
            part_PG[place] = named.of(outcome.extra)
    if named is not None and not any(named.name in outcome.extra for outcome in known):
        has = ", ".join(sorted({name for outcome in known for name in outcome.extra})) or "nothing"
        raise RewardError(
            f"the gate decides by {named.name!r}, and reward_extra_info has no such number; it has: {has}"
        )
    scored_PG = ~np.isnan(rewards_PG)
    parts = {} if named is None else {named.name: part_PG}
    return FinishedGroups(order, np.where(scored_PG, rewards_PG, 0.0), scored_PG, parts, completions)

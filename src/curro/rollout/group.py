"""A prompt's group on its way into a batch, and the counts of all groups."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from curro.rollout.engine import Rollout


class GroupFailed(Exception):
    """Why a group has no rewards: the engine or the scorer failed it."""


@dataclass(eq=False)
class Group:
    """One prompt and its G rollouts.

    Attributes:
        prompt, ticket, step: as `Curriculum.select` gave them.
        asked: how many rollouts the engine was asked for, retries included.
        rollouts: G of them once generated, failed ones included.
        rewards: float64 (G,), 0 where not scored; named: its parts, (G,) each, NaN where there is none.
        scored: bool (G,).
        error: what ended the group before it had rewards.
        admitted, advantages (G,), weight, informativeness: the curriculum's verdict; the weight is that of
            the draw, before a batch scales it.
    """

    prompt: int
    ticket: int
    step: int
    asked: int = 0
    rollouts: list[Rollout] = field(default_factory=list)
    rewards: np.ndarray = field(default_factory=lambda: np.empty(0))
    scored: np.ndarray = field(default_factory=lambda: np.empty(0, np.bool_))
    named: dict[str, np.ndarray] = field(default_factory=dict)
    error: Exception | None = None
    admitted: bool = False
    advantages: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: float = np.nan
    informativeness: float = np.nan


@dataclass
class Counts:
    """What a filler has done; groups unless named otherwise.

    `submitted = admitted + rejected + dropped + running` at all times, where `running` are the groups
    whose tickets are open.

    Attributes:
        submitted: given to the engine.
        admitted, rejected: observed by the curriculum, and what its gate said.
        failed: dropped because the engine or the scorer failed, or nothing of the group was scored.
        stale: dropped because they were older than `max_staleness`.
        cancelled: dropped because the batch was full, the fill was ended, or the filler closed.
        topped_up: of the rejected, those that a batch was topped up with.
        repeats: prompts drawn twice in a fill, not generated again.
        retried: further requests for rollouts that failed.
        rollouts: asked of the engine.
        failed_rollouts: came back without a completion, or not at all.
        wasted_rollouts: asked for, and nothing was learned of them: failed, or of a dropped group.
        busy_seconds, slot_seconds: of slots in use, and of all slots, while a batch was being filled.
    """

    submitted: int = 0
    admitted: int = 0
    rejected: int = 0
    failed: int = 0
    stale: int = 0
    cancelled: int = 0
    topped_up: int = 0
    repeats: int = 0
    retried: int = 0
    rollouts: int = 0
    failed_rollouts: int = 0
    wasted_rollouts: int = 0
    busy_seconds: float = 0.0
    slot_seconds: float = 0.0

    @property
    def dropped(self) -> int:
        """Groups that the curriculum never observed."""
        return self.failed + self.stale + self.cancelled

    @property
    def idle_share(self) -> float:
        """Share of the slots' time in which no group was in them; NaN before the first fill."""
        return 1 - self.busy_seconds / self.slot_seconds if self.slot_seconds else np.nan

    def since(self, before: Self) -> Self:
        """What was counted after `before`."""
        differences = {f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)}
        return type(self)(**differences)

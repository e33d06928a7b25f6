"""One prompt and its rollouts on their way into a batch, and what a filler counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from curro.core.verdicts import Verdict
from curro.rollout.engines.engine import Rollout
from curro.rollout.fill import FillCounts


class GroupFailed(Exception):
    """Says why a group has no rewards: its engine or its scorer failed."""


class GroupUnscored(GroupFailed):
    """Says that no rollout of a group has a reward, or the part of the reward that is the signal."""


@dataclass(eq=False)
class Group:
    """One prompt and its G rollouts.

    Attributes:
        prompt, ticket, step: as `Curriculum.select` gave them.
        size: G of this group; it grows where the allocation gives the group further rollouts.
        is_probe: whether the allocation has yet to look at its first rewards.
        further: rollouts that the allocation gave it when it looked, and that were not asked for yet.
        requested: how many rollouts the engine was asked for, retries included.
        rollouts: the G rollouts once they are generated, failed ones included.
        rewards: float64 (G,), NaN for failed and unscored rollouts.
        named: the parts of the reward, float64 (G,) each, NaN where a rollout has no such part.
        error: what ended the group before it had rewards.
        admitted, informativeness: the verdict's.
        verdict: the curriculum's on this group; None until it is observed.
    """

    prompt: int
    ticket: int
    step: int
    size: int
    is_probe: bool = False
    further: int = 0
    requested: int = 0
    rollouts: list[Rollout] = field(default_factory=list)
    rewards: np.ndarray = field(default_factory=lambda: np.empty(0))
    named: dict[str, np.ndarray] = field(default_factory=dict)
    error: Exception | None = None
    admitted: bool = False
    verdict: Verdict | None = None
    informativeness: float = np.nan

    def extend(
        self, rollouts: Sequence[Rollout], rewards: np.ndarray, named: Mapping[str, np.ndarray]
    ) -> None:
        """Add further rollouts with their rewards, (G,) each; a part that either side lacks is NaN there."""
        before, added = len(self.rollouts), len(rollouts)
        self.named = {
            name: np.concatenate(
                [self.named.get(name, np.full(before, np.nan)), named.get(name, np.full(added, np.nan))]
            )
            for name in {**self.named, **named}
        }
        self.rollouts = [*self.rollouts, *rollouts]
        self.rewards = np.concatenate([self.rewards, rewards])
        self.size = len(self.rollouts)


@dataclass
class Counts(FillCounts):
    """What a filler has done: the counts of every fill and of requests to the engine.

    Attributes:
        retried: further requests for rollouts that failed.
        rollouts: rollouts that the engine was asked for.
        failed_rollouts: rollouts that came back without a completion, or not at all.
        wasted_rollouts: rollouts that were asked for and of which the curriculum learned nothing, because
            they failed or their group was dropped.
    """

    retried: int = 0
    rollouts: int = 0
    failed_rollouts: int = 0
    wasted_rollouts: int = 0

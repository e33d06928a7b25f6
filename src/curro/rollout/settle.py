"""Settles the tickets of a filler's groups: a group is observed by the curriculum, or dropped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from curro.curriculum import Curriculum
from curro.errors import ConfigError, EngineError, FillError, RewardError
from curro.policy import AuxiliarySamples
from curro.rollout.fill import Fill
from curro.rollout.group import Counts, Group


class Settler:
    """Tells the curriculum and the fill what became of each group.

    Args:
        curriculum, fill, counts: the filler's.
        max_failures: so many groups in a row that fail are an error.
    """

    def __init__(
        self, curriculum: Curriculum, fill: Fill[Group], counts: Counts, *, max_failures: int
    ) -> None:
        self.curriculum, self.fill, self.counts = curriculum, fill, counts
        self.max_failures = max_failures
        self._auxiliary_samples: list[AuxiliarySamples] = []

    def more(self, group: Group) -> int:
        """How many further rollouts the allocation wants of a group.

        Raises:
            RewardError: the curriculum refused the rewards.
        """
        return int(self.curriculum.more([group.ticket], **_reported(group))[0])

    def settle(self, group: Group) -> None:
        """Observe or drop a group that has ended.

        Raises:
            EngineError, RewardError, ConfigError: this ended the group.
            FillError: too many groups in a row failed.
        """
        error, kept = group.error, f"{len(self.fill.admitted)} admitted groups are kept for the next fill"
        if error is None:
            self._observe(group)
            return
        self.drop(group, "failed")
        if isinstance(error, EngineError | RewardError | ConfigError):
            error.add_note(kept)
            raise error
        if self.fill.failures >= self.max_failures:
            key = self.curriculum.table.key(group.prompt)
            raise FillError(
                f"step {self.fill.step} cannot be filled: {self.fill.failures} groups in a row failed; the "
                f"last, prompt {key!r}: {error}. {kept}"
            ) from error

    def drop(self, group: Group, why: str) -> None:
        """Give a group up, counted as `why`: "failed", "stale" or "cancelled"."""
        self.fill.lose(group.ticket, why)
        self.counts.wasted_rollouts += group.asked
        release(self.curriculum, [group.ticket])

    def take_auxiliary(self) -> tuple[AuxiliarySamples, ...]:
        """What the method wants the policy trained on besides, of the groups since this was last asked."""
        samples, self._auxiliary_samples = tuple(self._auxiliary_samples), []
        return samples

    def _observe(self, group: Group) -> None:
        """Report a group's rewards to the curriculum, and its verdict to the group and to the fill."""
        try:
            verdict = self.curriculum.observe([group.ticket], **_reported(group))
        except BaseException:
            self.drop(group, "failed")
            raise
        group.admitted = bool(verdict.admitted[0])
        group.verdict = verdict
        group.informativeness = float(verdict.informativeness[0])
        answered = sum(rollout.error is None for rollout in group.rollouts)
        self.counts.wasted_rollouts += group.asked - answered
        if group.admitted:
            self.fill.admit(group.ticket, group)
        else:
            mean = float(group.rewards[group.scored].mean())
            self.fill.reject(group.ticket, group, informativeness=group.informativeness, reward=mean)
        if verdict.auxiliary_samples is not None:
            self._auxiliary_samples.append(verdict.auxiliary_samples)


def release(curriculum: Curriculum, tickets: Iterable[int]) -> None:
    """Drop tickets, except those that somebody else has settled."""
    tickets_P = np.array(list(tickets), np.int64)
    tickets_P = tickets_P[np.isin(tickets_P, curriculum.ledger.tickets)]
    if len(tickets_P):
        curriculum.drop(tickets_P)


def _reported(group: Group) -> dict[str, Any]:
    return {
        "rewards": group.rewards[None],
        "scored": group.scored[None],
        "named": {name: part_G[None] for name, part_G in group.named.items()},
    }

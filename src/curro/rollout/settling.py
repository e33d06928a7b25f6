"""What becomes of groups: the curriculum judges those that have ended, others have their tickets dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curro.curriculum import Curriculum
from curro.errors import ConfigError, EngineError, FillError, RewardError
from curro.lessons import Lessons
from curro.rollout.batch import Filling
from curro.rollout.group import Counts, Group


class Settler:
    """Settles every ticket once, and keeps the admitted groups until a batch takes them.

    Args:
        curriculum: gave the tickets, and says which groups are admitted.
        counts: what is admitted, rejected, dropped and wasted is counted here.
        max_failures: so many groups in a row may fail.

    Attributes:
        kept: admitted groups that no batch has taken.
        lessons: what the method wants the policy trained on, of the groups observed since the last batch.
    """

    def __init__(self, curriculum: Curriculum, counts: Counts, max_failures: int) -> None:
        self.curriculum, self.counts, self.max_failures = curriculum, counts, max_failures
        self.kept: list[Group] = []
        self.lessons: list[Lessons] = []

    def settle(self, group: Group, fill: Filling) -> None:
        """Let the curriculum judge a group that has ended.

        Raises:
            EngineError, RewardError, ConfigError: this ended the group.
            FillError: too many groups in a row failed.
        """
        if group.error is not None:
            self.drop(group, "failed")
            self._judge(group, group.error, fill)
            return
        fill.failures = 0
        try:
            verdict = self.curriculum.observe(
                [group.ticket],
                group.rewards[None],
                scored=group.scored[None],
                named={name: part_G[None] for name, part_G in group.named.items()},
            )
        except BaseException:
            self.drop(group, "failed")
            raise
        group.admitted = bool(verdict.admitted[0])
        group.advantages, group.weight = verdict.advantages[0], float(verdict.weights[0])
        group.informativeness = float(verdict.informativeness[0])
        if verdict.lessons is not None:
            self.lessons.append(verdict.lessons)
        self.counts.wasted_rollouts += group.asked - sum(rollout.error is None for rollout in group.rollouts)
        if group.admitted:
            self.counts.admitted += 1
            self.kept.append(group)
        else:
            self.counts.rejected += 1
            if fill.top_up:
                fill.remember(group, fill.n - len(self.kept))

    def drop(self, group: Group, why: str) -> None:
        """Give a group up, counted as `why`: "failed", "stale" or "cancelled"."""
        setattr(self.counts, why, getattr(self.counts, why) + 1)
        self.counts.wasted_rollouts += group.asked
        self.release([group.ticket])

    def release(self, tickets: Sequence[int]) -> None:
        """Drop tickets, but for those that somebody else has settled."""
        tickets_P = np.asarray(tickets, np.int64)
        tickets_P = tickets_P[np.isin(tickets_P, self.curriculum.ledger.tickets)]
        if len(tickets_P):
            self.curriculum.drop(tickets_P)

    def _judge(self, group: Group, error: Exception, fill: Filling) -> None:
        """Raise what a failed group means for the fill, if anything."""
        if isinstance(error, EngineError | RewardError | ConfigError):
            error.add_note(f"{len(self.kept)} admitted groups are kept for the next fill")
            raise error
        fill.failures += 1
        if fill.failures >= self.max_failures:
            raise FillError(
                f"step {fill.step}: {fill.failures} groups in a row failed; the last, prompt "
                f"{self.curriculum.table.key(group.prompt)!r}: {error}. {len(self.kept)} admitted groups are "
                "kept for the next fill"
            ) from error

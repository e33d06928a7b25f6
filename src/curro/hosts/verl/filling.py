"""What filling a batch has cost so far, and when it has cost too much."""

from __future__ import annotations

from dataclasses import dataclass

from curro.errors import FillError


@dataclass
class Filling:
    """The groups of the batch that is being filled.

    verl asks for new groups for as long as some are thrown away, without an end.

    Attributes:
        wanted: groups of a batch.
        limit: groups generated for it, in batches.
        draws, groups: how often groups were asked for, and how many.
        rejected, flat, failed, stale: groups thrown away by the curriculum's gate, by verl's
            `algorithm.filter_groups`, because a rollout failed, and because they are too old.
    """

    wanted: int
    limit: float
    draws: int = 0
    groups: int = 0
    rejected: int = 0
    flat: int = 0
    failed: int = 0
    stale: int = 0
    rejected_reward: float = 0.0

    def begin(self) -> None:
        """A new batch."""
        self.draws = self.groups = self.rejected = self.flat = self.failed = self.stale = 0
        self.rejected_reward = 0.0

    def drawn(self, groups: int) -> None:
        """So many groups are generated for the batch."""
        self.draws += 1
        self.groups += groups

    def check(self, step: int) -> None:
        """Before more groups are asked for.

        Raises:
            FillError: the limit is reached.
        """
        if self.groups >= self.limit * self.wanted:
            found = sorted((-number, why, advice) for number, why, advice in self._thrown_away() if number)
            causes = ", ".join(f"{-number} {why}" for number, why, _ in found)
            advice = f"{found[0][2]}, or " if found else ""
            raise FillError(
                f"{self.groups} groups were generated for the batch of {self.wanted} of step {step}, and of "
                f"the groups that came back {causes or 'too few are finished'}: "
                f"{advice}raise curro.refill_limit, now {self.limit:g} batches"
            )

    def _thrown_away(self) -> list[tuple[int, str, str]]:
        """(groups, why they went, what to do)."""
        return [
            (self.rejected, "were rejected by the gate", "widen curro.admission"),
            (self.flat, "had one value of algorithm.filter_groups.metric", "choose another metric or data"),
            (self.failed, "had failed rollouts", "look for their errors in verl's log"),
            (self.stale, "were stale", "raise trainer.v1.sampler.max_off_policy_threshold"),
        ]

    def metrics(self) -> dict[str, float]:
        found = {
            "refill/rounds": float(self.draws),
            "refill/groups": float(self.groups),
            "refill/rejected": float(self.rejected),
        }
        if self.rejected:
            found["refill/rejected_reward"] = self.rejected_reward / self.rejected
        return found

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
    """

    wanted: int
    limit: float
    draws: int = 0
    groups: int = 0
    observed: int = 0
    rejected: int = 0
    rejected_reward: float = 0.0

    def begin(self) -> None:
        """A new batch."""
        self.draws = self.groups = self.observed = self.rejected = 0
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
            raise FillError(
                f"of {self.observed} groups that came back for the batch of {self.wanted} of step {step}, "
                f"{self.rejected} were rejected, and {self.groups} were generated: widen the admission band, "
                f"or raise curro.refill_limit, now {self.limit:g} batches"
            )

    def metrics(self) -> dict[str, float]:
        found = {
            "refill/rounds": float(self.draws),
            "refill/groups": float(self.groups),
            "refill/rejected": float(self.rejected),
        }
        if self.rejected:
            found["refill/rejected_reward"] = self.rejected_reward / self.rejected
        return found

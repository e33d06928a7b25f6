"""What fills have done: the counts behind the metrics `fill/...` of every host."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self


@dataclass
class FillCounts:
    """What fills have done, in groups.

    `given_out = admitted + rejected + failed + stale + cancelled + in flight` at all times.

    Attributes:
        draws: how often prompts were drawn.
        given_out: groups that were sent to be rolled out.
        repeats: prompts that were drawn again for the same batch, and not rolled out again.
        admitted, rejected: groups that the curriculum observed, by what its gate said.
        failed: groups whose generation or scoring failed.
        stale: groups that were dropped because they were too old.
        cancelled: groups that were given up before they ended.
        filtered, expired: admitted groups that did not stay: a filter of the trainer's own removed them, or
            they grew too old before a batch took them.
        topped_up: rejected groups that came into a batch because it was short.
        rejected_reward: the sum of the rejected groups' mean rewards.
    """

    draws: int = 0
    given_out: int = 0
    repeats: int = 0
    admitted: int = 0
    rejected: int = 0
    failed: int = 0
    stale: int = 0
    cancelled: int = 0
    filtered: int = 0
    expired: int = 0
    topped_up: int = 0
    rejected_reward: float = 0.0

    @property
    def dropped(self) -> int:
        """Groups that the curriculum never observed."""
        return self.failed + self.stale + self.cancelled

    @property
    def ended(self) -> int:
        """Groups that came to an end; groups that were cancelled did not."""
        return self.admitted + self.rejected + self.failed + self.stale

    def since(self, before: Self) -> Self:
        """What was counted after `before`."""
        differences = {one.name: getattr(self, one.name) - getattr(before, one.name) for one in fields(self)}
        return type(self)(**differences)

    def metrics(self) -> dict[str, float]:
        """The counts under the names `fill/...`; the mean reward of rejected groups where there are any."""
        found = {one.name: float(getattr(self, one.name)) for one in fields(self)}
        total = found.pop("rejected_reward")
        if self.rejected:
            found["rejected_reward"] = total / self.rejected
        return {f"fill/{name}": number for name, number in found.items()}

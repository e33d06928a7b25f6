"""The fill for a trainer that throws groups away by itself and asks for as many new ones: verl, slime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from curro.core.errors import ExhaustedError, FillError
from curro.core.groups import Feedback, MissingRewards
from curro.core.verdicts import Draw, Verdict
from curro.rollout.fill import Fill, InFlight, Port, select_unseen
from curro.rollout.fill_settings import FillSettings


class PolledFill:
    """Reports to a `Fill` what a trainer does with its groups; one step of the trainer is one batch.

    The trainer decides what is in a batch and when it is full. The fill draws the prompts, counts, and ends
    the run when the limit is reached: the trainer would ask for new groups for as long as some are thrown
    away.

    Args:
        port: the curriculum, which draws prompts and drops tickets.
        limit: how many groups may end for a batch, in batches.
        size: the number of prompts.
        advice: as `Fill` takes it.

    Attributes:
        has_reward: whether any group of the run has had a reward.
    """

    def __init__(
        self,
        port: Port,
        limit: float,
        *,
        size: int,
        advice: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        self.has_reward, self._missing_rewards = False, MissingRewards()
        settings = FillSettings(limit, when_short="error")
        self.fill: Fill[int] = Fill(settings, size=size, advice=advice)

    def begin(self, n: int, step: int, waiting: Iterable[int]) -> None:
        """Begin a step; `waiting` are the tickets of admitted groups that the trainer still has."""
        self.end()
        self.fill.begin(n, step, waiting=set(waiting))

    def end(self) -> None:
        """End a step, completed or not: drop the tickets that were held."""
        if held := self.fill.release():
            self.port.drop(held, "")

    def cancel(self) -> None:
        """Drop the groups that have not ended, because the trainer has cut them off."""
        if tickets := sorted(self.fill.in_flight):
            self.port.drop(tickets, "cancelled")
            for ticket in tickets:
                self.fill.mark_failed(ticket, "cancelled")

    @property
    def estimates(self) -> list[int]:
        """The tickets in flight whose groups only estimate a difficulty, for a checkpoint."""
        return sorted(ticket for ticket, group in self.fill.in_flight.items() if group.is_estimate)

    def restore(
        self, ledger: Mapping[str, Any], observed: Mapping[int, int], estimates: Collection[int] = ()
    ) -> None:
        """Continue from a checkpoint.

        Args:
            ledger: the tickets in flight, as `TicketLedger.state_dict` has them.
            observed: the prompts of admitted groups that the trainer still has, by ticket.
            estimates: `estimates` as it was when the checkpoint was saved.
        """
        rows = zip(*(ledger[name].tolist() for name in ("tickets", "prompts", "steps")), strict=True)
        in_flight = {ticket: InFlight(prompt, step, ticket in estimates) for ticket, prompt, step in rows}
        self.fill.restore(in_flight, {ticket: (prompt, ticket) for ticket, prompt in observed.items()})
        self.has_reward = ledger["observed"] > 0

    def draw(self, n: int, *, step: int, rollouts: int | None = None) -> Draw:
        """n prompts that were not given out for this batch before, and their shares of a budget of rollouts.

        Raises:
            FillError: fewer than n are left.
            ExhaustedError: fewer than n are left, and no batch has been begun.
        """
        try:
            return select_unseen(self.port, self.fill, n, step=step, rollouts=rollouts)
        except ExhaustedError as error:
            if not self.fill.n:
                raise
            raise FillError(self.fill.explain()) from error

    def check(self) -> None:
        """Refuse to give out more groups; called before the trainer asks for them."""
        if self.fill.reason:
            raise FillError(self.fill.explain())

    def observed(self, feedback: Feedback, verdict: Verdict, filtered: Collection[int] = ()) -> None:
        """Count groups that were reported to the curriculum.

        Args:
            feedback, verdict: on P groups.
            filtered: tickets of groups that the trainer's own filter throws away.

        Raises:
            RewardError: as many groups as a batch has were reported, and none of the run has had a reward.
        """
        tickets = feedback.tickets.tolist()
        self.fill.settle(feedback, verdict, tickets)
        for ticket in tickets:
            if ticket in filtered and ticket in self.fill.admitted:
                self.fill.withdraw(ticket, "filtered")
        self.has_reward |= not verdict.dropped.all()
        if not self.has_reward:
            self._missing_rewards.count(feedback, self.fill.n)

    def dropped(self, tickets: Iterable[int], stale: Collection[int]) -> None:
        """Count groups whose tickets were dropped: those in `stale` are too old, the others have failed."""
        for ticket in tickets:
            self.fill.mark_failed(ticket, "stale" if ticket in stale else "failed")

    def expired(self, tickets: Iterable[int]) -> None:
        """Take out groups that were observed earlier and that the trainer throws away as too old."""
        for ticket in tickets:
            if ticket in self.fill.admitted:
                self.fill.withdraw(ticket, "expired")

    def metrics(self) -> dict[str, float]:
        """The counts of this step, `fill/...`."""
        return self.fill.batch_counts.metrics()

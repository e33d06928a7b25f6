"""The fill as a trainer drives it that throws groups away and asks for as many new ones: verl, slime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from curro.errors import ExhaustedError, FillError
from curro.rollout.fill import Fill, InFlight, Port, draw_fresh
from curro.rollout.fill_settings import FillSettings
from curro.verdicts import Draw, Verdict


class PolledFill:
    """Feeds the fill with what the trainer finds; a batch is a step of the trainer's.

    The trainer decides what is in a batch and when it is full. Without a limit it would ask for new groups as
    long as some are thrown away.

    Args:
        port: draws, and drops tickets.
        limit: how many groups may end for a batch, in batches.
        size: the number of prompts.
        may_repeat: whether the selection repeats prompts.
        advice: as `Fill` takes it.
    """

    def __init__(
        self,
        port: Port,
        limit: float,
        *,
        size: int,
        may_repeat: bool,
        advice: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        settings = FillSettings(limit, when_short="error")
        self.fill: Fill[int] = Fill(settings, size=size, may_repeat=may_repeat, advice=advice)

    def begin(self, n: int, step: int, waiting: Iterable[int]) -> None:
        """A step begins; `waiting` are the tickets of admitted groups that are still to be had."""
        self.end()
        self.fill.begin(n, step, waiting=set(waiting))

    def end(self) -> None:
        """The step is over, or given up: drop the tickets that were held."""
        if held := self.fill.release():
            self.port.drop(held)

    def cancel(self) -> None:
        """Drop the groups that have not ended: the trainer has cut them off."""
        if tickets := sorted(self.fill.in_flight):
            self.port.drop(tickets)
            for ticket in tickets:
                self.fill.lose(ticket, "cancelled")

    def restore(self, ledger: Mapping[str, np.ndarray], observed: Mapping[int, int]) -> None:
        """Go on from a checkpoint.

        Args:
            ledger: the tickets in flight, as `TicketLedger.state_dict` has them.
            observed: prompts of groups that were observed and are still to be had, by ticket.
        """
        rows = zip(*(ledger[name].tolist() for name in ("tickets", "prompts", "steps")), strict=True)
        in_flight = {ticket: InFlight(prompt, step) for ticket, prompt, step in rows}
        self.fill.restore(in_flight, {ticket: (prompt, ticket) for ticket, prompt in observed.items()})

    def draw(self, n: int, *, step: int) -> Draw:
        """Prompts that the batch has not had.

        Raises:
            FillError: it has had all of them.
            ExhaustedError: there are not so many, and no batch has been begun.
        """
        try:
            return draw_fresh(self.port, self.fill, n, step=step)
        except ExhaustedError as error:
            if not self.fill.n:
                raise
            raise FillError(self.fill.explain()) from error

    def check(self) -> None:
        """Before more groups are asked for.

        Raises:
            FillError: the limit is reached.
        """
        if self.fill.reason:
            raise FillError(self.fill.explain())

    def observed(
        self, tickets: Sequence[int], verdict: Verdict, rewards: np.ndarray, filtered: Collection[int]
    ) -> None:
        """Groups that the curriculum has observed.

        Args:
            rewards: float64 (P,), their mean rewards.
            filtered: tickets that the trainer's own filter throws away.
        """
        for row, ticket in enumerate(tickets):
            if not verdict.admitted[row]:
                variance = float(verdict.informativeness[row])
                self.fill.reject(ticket, ticket, informativeness=variance, reward=float(rewards[row]))
                continue
            self.fill.admit(ticket, ticket)
            if ticket in filtered:
                self.fill.withdraw(ticket, "filtered")

    def dropped(self, tickets: Iterable[int], stale: Collection[int]) -> None:
        """Groups whose tickets were dropped: those in `stale` are too old, the others have failed."""
        for ticket in tickets:
            self.fill.lose(ticket, "stale" if ticket in stale else "failed")

    def expired(self, tickets: Iterable[int]) -> None:
        """Of groups that were observed earlier, those that the trainer throws away as too old."""
        for ticket in tickets:
            if ticket in self.fill.admitted:
                self.fill.withdraw(ticket, "expired")

    def metrics(self) -> dict[str, float]:
        """The counts of this step, `fill/...`."""
        return self.fill.batch_counts.metrics()

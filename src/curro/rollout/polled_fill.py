"""The fill for a trainer that throws groups away by itself and asks for as many new ones: verl, slime."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from curro.errors import ExhaustedError, FillError
from curro.rollout.fill import Fill, InFlight, Port, draw_fresh
from curro.rollout.fill_settings import FillSettings
from curro.verdicts import Draw, Verdict


class PolledFill:
    """Reports to a `Fill` what a trainer does with its groups; one step of the trainer is one batch.

    The trainer decides what is in a batch and when it is full. The fill draws the prompts, counts, and ends
    the run when the limit is reached: the trainer would ask for new groups for as long as some are thrown
    away.

    Args:
        port: the curriculum, which draws prompts and drops tickets.
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
        """Begin a step; `waiting` are the tickets of admitted groups that the trainer still has."""
        self.end()
        self.fill.begin(n, step, waiting=set(waiting))

    def end(self) -> None:
        """End a step, completed or not: drop the tickets that were held."""
        if held := self.fill.release():
            self.port.drop(held)

    def cancel(self) -> None:
        """Drop the groups that have not ended, because the trainer has cut them off."""
        if tickets := sorted(self.fill.in_flight):
            self.port.drop(tickets)
            for ticket in tickets:
                self.fill.lose(ticket, "cancelled")

    def restore(self, ledger: Mapping[str, np.ndarray], observed: Mapping[int, int]) -> None:
        """Continue from a checkpoint.

        Args:
            ledger: the tickets in flight, as `TicketLedger.state_dict` has them.
            observed: the prompts of admitted groups that the trainer still has, by ticket.
        """
        rows = zip(*(ledger[name].tolist() for name in ("tickets", "prompts", "steps")), strict=True)
        in_flight = {ticket: InFlight(prompt, step) for ticket, prompt, step in rows}
        self.fill.restore(in_flight, {ticket: (prompt, ticket) for ticket, prompt in observed.items()})

    def draw(self, n: int, *, step: int) -> Draw:
        """n prompts that were not given out for this batch before.

        Raises:
            FillError: fewer than n are left.
            ExhaustedError: fewer than n are left, and no batch has been begun.
        """
        try:
            return draw_fresh(self.port, self.fill, n, step=step)
        except ExhaustedError as error:
            if not self.fill.n:
                raise
            raise FillError(self.fill.explain()) from error

    def check(self) -> None:
        """Refuse to give out more groups; called before the trainer asks for them.

        Raises:
            FillError: the limit is reached, or the prompts have run out.
        """
        if self.fill.reason:
            raise FillError(self.fill.explain())

    def observed(
        self, tickets: Sequence[int], verdict: Verdict, rewards: np.ndarray, filtered: Collection[int]
    ) -> None:
        """Count groups that the curriculum has observed.

        Args:
            tickets, verdict: of P groups.
            rewards: float64 (P,), their mean rewards; NaN for a group without a reward, which has failed.
            filtered: tickets of groups that the trainer's own filter throws away.
        """
        for row, ticket in enumerate(tickets):
            if np.isnan(rewards[row]):
                # it failed rather than was rejected: to widen the gate would be wrong advice
                self.fill.lose(ticket, "failed")
                continue
            if not verdict.admitted[row]:
                variance = float(verdict.informativeness[row])
                self.fill.reject(ticket, ticket, informativeness=variance, reward=float(rewards[row]))
                continue
            self.fill.admit(ticket, ticket)
            if ticket in filtered:
                self.fill.withdraw(ticket, "filtered")

    def dropped(self, tickets: Iterable[int], stale: Collection[int]) -> None:
        """Count groups whose tickets were dropped: those in `stale` are too old, the others have failed."""
        for ticket in tickets:
            self.fill.lose(ticket, "stale" if ticket in stale else "failed")

    def expired(self, tickets: Iterable[int]) -> None:
        """Take out groups that were observed earlier and that the trainer throws away as too old."""
        for ticket in tickets:
            if ticket in self.fill.admitted:
                self.fill.withdraw(ticket, "expired")

    def metrics(self) -> dict[str, float]:
        """The counts of this step, `fill/...`."""
        return self.fill.batch_counts.metrics()

"""What every fill promises, whoever drives it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Any

import numpy as np

import curro
from curro.core.errors import FillError
from curro.rollout.fill import Fill, InFlight, select_unseen
from curro.rollout.fill_settings import FillSettings

SELECTIONS = ("uniform", "uniform:replacement=true", "prioritized-replay", "pspo", "least-visited")
GATES = ("everything", "band:0,1", "band:0.4,0.6")


def check(fill: Fill[Any], curriculum: curro.Curriculum, *, shared: bool = False) -> None:
    """The fill's counts agree with each other and with the curriculum's ledger, and no prompt comes twice.

    Args:
        shared: others draw from the curriculum, too.
    """
    counts, ledger = fill.counts, curriculum.ledger
    assert counts.given_out == counts.ended + counts.cancelled + len(fill.in_flight)
    assert ledger.selected == ledger.observed + ledger.dropped + len(ledger)
    if not shared:
        assert ledger.selected == counts.given_out + counts.repeats
        assert ledger.observed == counts.admitted + counts.rejected
        assert sorted(ledger.tickets.tolist()) == sorted([*fill.in_flight, *fill.held])
    waiting = fill.in_flight.keys() | fill.admitted.keys()
    assert waiting <= fill.prompts_given_out.keys()
    if not fill.may_repeat:
        assert len(set(fill.prompts_given_out.values())) == len(fill.prompts_given_out)


def end_batch(
    fill: Fill[int], curriculum: curro.Curriculum, admitted: Collection[int], *, cancel: bool
) -> list[int]:
    """The groups of a batch that is ended now, none where it stays short, and what is promised of them.

    Args:
        admitted: all groups that were admitted so far.
        cancel: groups in flight are cancelled; else they go on for the next batch.
    """
    if cancel and fill.in_flight:
        curriculum.drop(np.array(list(fill.in_flight)))
        for ticket in list(fill.in_flight):
            fill.mark_failed(ticket, "cancelled")
    drop_held(fill, curriculum)
    try:
        groups = fill.take()
    except FillError:
        assert fill.settings.when_short != "finish"
        assert len(fill.admitted) < fill.n
        return []
    assert len(groups) == fill.n or fill.settings.when_short == "finish"
    assert fill.settings.when_short == "top-up" or set(groups) <= set(admitted)
    return groups


def drop_held(fill: Fill[Any], curriculum: curro.Curriculum) -> None:
    """Settle the tickets that the fill has held."""
    if held := fill.release():
        curriculum.drop(np.array(held))


class FilledBatches:
    """A curriculum of 8 prompts and its fill, called in any order, and what became of the groups.

    Args:
        n: the size of the first batch.

    Attributes:
        admitted: tickets of all groups that the gate admitted, without those that were withdrawn.
        trained, topped_up: tickets of groups that came into a batch, admitted ones and others.
        had: prompts that were drawn for the batch that is being filled.
    """

    def __init__(self, selection: str, gate: str, seed: int, settings: FillSettings, n: int) -> None:
        self._make = lambda: curro.Curriculum(selection, 8, admission=gate, seed=seed)
        self.curriculum, self.settings, self.step = self._make(), settings, 0
        self.fill = self._new_fill()
        self.admitted: list[int] = []
        self.trained: list[int] = []
        self.topped_up: list[int] = []
        self.had: list[int] = []
        self.fill.begin(n, 0)

    def _new_fill(self) -> Fill[int]:
        return Fill(self.settings, size=8, may_repeat=self.curriculum.selection.repeats)

    def draw(self, n: int) -> None:
        if self.fill.reason:
            return
        try:
            draw = select_unseen(self.curriculum, self.fill, n, step=self.step)
        except curro.ExhaustedError:
            assert self.fill.reason == "prompts"
            return
        if not self.fill.may_repeat:
            assert not set(draw.prompts.tolist()) & set(self.had), "a prompt came twice into a batch"
        self.had += draw.prompts.tolist()

    def observe(self, ticket: int, right: int) -> None:
        """A group of 4 rollouts ends, of which so many are right."""
        verdict = self.curriculum.observe([ticket], (np.arange(4) < right)[None].astype(float))
        if verdict.admitted[0]:
            self.fill.admit(ticket, ticket)
            self.admitted.append(ticket)
        else:
            variance = float(verdict.informativeness[0])
            self.fill.reject(ticket, ticket, informativeness=variance, reward=right / 4)

    def lose(self, ticket: int, why: str) -> None:
        self.curriculum.drop([ticket])
        self.fill.mark_failed(ticket, why)

    def withdraw(self, ticket: int, why: str) -> None:
        self.fill.withdraw(ticket, why)
        self.admitted.remove(ticket)

    def end_again(self, ticket: int, call: int) -> None:
        """A group that ended before, or was never given out, ends: an error, and nothing has changed."""
        before = self.fill.counts.metrics()
        calls: list[Callable[[], None]] = [
            lambda: self.fill.admit(ticket, ticket),
            lambda: self.fill.reject(ticket, ticket, informativeness=0.1, reward=0.5),
            lambda: self.fill.mark_failed(ticket, "failed"),
            lambda: self.fill.withdraw(ticket, "expired"),
        ]
        try:
            calls[call]()
        except KeyError:
            assert self.fill.counts.metrics() == before
            return
        raise AssertionError("a group that is not there came to an end")

    def finish(self, n: int, *, cancel: bool) -> None:
        """End the batch, and begin one of n groups."""
        groups = end_batch(self.fill, self.curriculum, self.admitted, cancel=cancel)
        self.trained += [ticket for ticket in groups if ticket in self.admitted]
        self.topped_up += [ticket for ticket in groups if ticket not in self.admitted]
        self._begin(n)

    def restore(self, n: int) -> None:
        """The run is killed, and goes on from the state that the curriculum and the fill had."""
        drop_held(self.fill, self.curriculum)
        state, killed = self.curriculum.state_dict(), self.fill
        self.curriculum = self._make()
        self.curriculum.load_state_dict(state)
        self.fill = self._new_fill()
        ledger = self.curriculum.ledger.state_dict()
        rows = zip(*(ledger[name].tolist() for name in ("tickets", "prompts", "steps")), strict=True)
        self.fill.restore(
            {ticket: InFlight(prompt, step) for ticket, prompt, step in rows},
            {ticket: (killed.prompts_given_out[ticket], group) for ticket, group in killed.admitted.items()},
        )
        for count in fields(killed.counts):
            setattr(self.fill.counts, count.name, getattr(killed.counts, count.name))
        self._begin(n)

    def _begin(self, n: int) -> None:
        self.step += 1
        self.fill.begin(n, self.step)
        self.had = list(self.fill.prompts_given_out.values())

    def check(self) -> None:
        check(self.fill, self.curriculum)
        batches = self.trained + self.topped_up
        assert len(set(batches)) == len(batches), "a group was trained on twice"
        waiting = [*self.trained, *self.fill.admitted]
        assert sorted(self.admitted) == sorted(waiting), "an admitted group was lost"
        assert self.fill.counts.topped_up == len(self.topped_up)

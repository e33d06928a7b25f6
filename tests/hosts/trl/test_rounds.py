"""The fill in rounds, without a model: whatever the rewards are and wherever a round breaks off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollout.fill_promises import check

import curro
from curro.errors import ExhaustedError, FillError
from curro.hosts.trl.rounds import Settled, fill_in_rounds
from curro.rollout.fill import Fill, draw_fresh, sized
from curro.rollout.fill_settings import FillSettings
from curro.rollout.group_tasks import release

SELECTIONS = ["uniform", "uniform:replacement=true", "prioritized-replay:variant=published", "pspo"]
ALLOCATIONS = [
    None,
    "hit:1",
    "screen:first=2,total=9",
    "until:each=3,rounds=3,keep=none",
    "until:each=4,keep=2",
]
SIZE = 4


class Broken(Exception):
    """A round that breaks off."""


class Owner:
    """The process that owns the curriculum; its rewards are random, and it remembers what it answered."""

    def __init__(self, curriculum, settings, *, processes=1, pass_rates=None, breaks=()):
        self.curriculum, self.processes, self.breaks = curriculum, processes, list(breaks)
        size, repeats = curriculum.table.size, curriculum.selection.repeats
        self.fill = Fill(settings, size=size, may_repeat=repeats, weigh=len)
        self.rng, self.pass_rates = np.random.default_rng(0), pass_rates
        self.told, self.rounds, self.draws, self.rewards = [], [], [], {}

    def tell(self, answer):
        self.told.append(answer)
        return answer

    def draw(self, rows):
        try:
            return self.tell(self._draw(rows))
        except ExhaustedError as error:
            self.told.append(error)
            raise

    def _draw(self, rows):
        number, allocation, budget = (
            min(-(-rows // SIZE), self.fill.untried),
            self.curriculum.allocation,
            None,
        )
        if not self.curriculum.has_allocation:
            number = min(-(-number // self.processes), self.fill.untried // self.processes) * self.processes
        elif allocation.needs_budget:
            budget = int(number) * SIZE
        else:
            number = min(max(1, rows // allocation.first), self.fill.n // SIZE, self.fill.untried)
        if not number:
            raise ExhaustedError("all were tried")
        fresh = draw_fresh(self.curriculum, self.fill, int(number), step=self.fill.step, rollouts=budget)
        self.draws.append(draw := sized(fresh, SIZE))
        for ticket, prompt in zip(draw.tickets.tolist(), draw.prompts.tolist(), strict=True):
            rate = self.rng.random() if self.pass_rates is None else self.pass_rates
            self.rewards[ticket] = (prompt, rate, [])
        return draw

    def roll_out(self, numbers):
        if self.breaks and self.breaks.pop(0):
            raise Broken
        assert sum(numbers.values()) % self.processes == 0
        self.rounds.append(dict(numbers))
        for ticket, number in numbers.items():
            _, rate, rewards = self.rewards[ticket]
            rewards += (self.rng.random(number) < rate).astype(float).tolist()

    def more(self, tickets):
        return self.tell(
            [int(self.curriculum.more([ticket], [self.rewards[ticket][2]])[0]) for ticket in tickets]
        )

    def settle(self, tickets):
        verdicts = [self.curriculum.observe([ticket], [self.rewards[ticket][2]]) for ticket in tickets]
        columns = [np.concatenate([getattr(one, name) for one in verdicts])
                   for name in ("prompts", "admitted", "weights", "informativeness")]  # fmt: skip
        blank_PG = np.empty((len(tickets), 0))
        verdict = curro.Verdict(columns[0], columns[1], blank_PG, *columns[2:], kept=blank_PG)
        means = np.array([np.mean(self.rewards[ticket][2]) for ticket in tickets])
        groups = [[ticket] * int(one.kept.sum()) for ticket, one in zip(tickets, verdicts, strict=True)]
        return self.tell(Settled(verdict, means, groups))

    def drop(self, tickets):
        release(self.curriculum, tickets)

    def step(self, rows, step):
        """The batch, and that of a process that is told the same."""
        self.told.clear()
        try:
            keep = self.curriculum.allocation.keep
            batch = fill_in_rounds(self.fill, rows, step, self, processes=self.processes, keep=keep)
        finally:
            release(self.curriculum, self.fill.release())
        return batch


class Told:
    """Another process."""

    def __init__(self, fill, answers):
        self.fill, self.answers = fill, iter(answers)

    def draw(self, rows):
        draw = next(self.answers)
        if isinstance(draw, ExhaustedError):
            raise draw
        self.fill.give_out(draw)
        return draw

    def roll_out(self, numbers):
        pass

    def more(self, tickets):
        return next(self.answers)

    settle = more


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    selection=st.sampled_from(SELECTIONS), gate=st.sampled_from(["everything", "band:0,1", "band:0.4,0.6"]),
    allocation=st.sampled_from(ALLOCATIONS),
    seed=st.integers(0, 99), limit=st.sampled_from([1.0, 2.0, 10.0]),
    when_short=st.sampled_from(["top-up", "error"]), processes=st.integers(1, 3),
    plan=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    breaks=st.lists(st.booleans(), max_size=4),
)  # fmt: skip
def test_every_batch_is_full_or_an_error_and_nothing_is_left_in_flight(
    selection, gate, allocation, seed, limit, when_short, processes, plan, breaks
):
    every_batch_is_full_or_an_error(
        selection, gate, allocation, seed, limit, when_short, processes, plan, breaks
    )


def every_batch_is_full_or_an_error(
    selection, gate, allocation, seed, limit, when_short, processes, plan, breaks
):
    curriculum = curro.Curriculum(selection, 12, admission=gate, allocation=allocation, seed=seed)
    owner = Owner(
        curriculum, FillSettings(limit, when_short), processes=processes,
        breaks=breaks if processes == 1 else (),
    )  # fmt: skip
    other = Fill(owner.fill.settings, size=12, may_repeat=owner.fill.may_repeat, weigh=len)
    trained = []
    for step, prompts in enumerate(plan):
        rows = prompts * SIZE * processes
        owner.draws.clear()
        try:
            batch = owner.step(rows, step)
        except Broken:
            other.counts = replace(owner.fill.counts)
        except FillError:
            assert when_short == "error" or owner.fill.exhausted
        else:
            sizes = [len(group) for group in batch]
            assert sum(sizes) >= rows > sum(sizes[:-1])
            told, keep = Told(other, owner.told), curriculum.allocation.keep
            assert fill_in_rounds(other, rows, step, told, processes=processes, keep=keep) == batch
            trained += [group[0] for group in batch]
        check(owner.fill, curriculum)
        assert len(curriculum.ledger) == len(owner.fill.in_flight) == 0
        had = np.concatenate([draw.prompts for draw in owner.draws] or [np.empty(0)])
        assert owner.fill.may_repeat or len(np.unique(had)) == len(had)
    assert len(set(trained)) == len(trained)


def outcomes(owner, *rewards):
    """Let the owner's groups have these rewards, in the order of their rollouts."""
    planned = dict(enumerate(rewards))

    def roll_out(numbers):
        owner.rounds.append(dict(numbers))
        for ticket, number in numbers.items():
            found = owner.rewards[ticket][2]
            marks = planned[ticket][len(found) : len(found) + number]
            assert len(marks) == number
            found += [float(mark) for mark in marks]

    owner.roll_out = roll_out
    return owner


def test_a_round_generates_what_is_missing_rounded_up_to_the_processes():
    """2 of 4 are admitted: 4 groups, then 2; then 2 on two processes where one is missing."""
    curriculum = curro.Curriculum("least-visited", 40, admission="band:0.4,0.6")
    owner = Owner(curriculum, FillSettings(), processes=2)
    outcomes(owner, "1100", "1100", "1100", "0000", "0000", "1100", "1100", "1100")
    batch = owner.step(16, 0)
    assert [len(numbers) for numbers in owner.rounds] == [4, 2]
    assert [group[0] for group in batch] == [0, 1, 2, 5]
    assert owner.fill.batch_counts.draws == 2
    batch = owner.step(8, 1)
    assert [group[0] for group in batch] == [6, 7]  # nothing was left over


def test_open_groups_go_on_in_the_rows_that_are_left_and_new_ones_take_the_rest():
    """24 rows, 2 first, up to 6: tickets 1 and 5 go on; 6 would, but there is no row left."""
    curriculum = curro.Curriculum("least-visited", 40, allocation="screen:first=2,total=6")
    owner = outcomes(
        Owner(curriculum, FillSettings()), "00", "100000", "00", "11", "00", "011111", "01", "00"
    )
    batch = owner.step(24, 0)
    assert owner.rounds == [dict.fromkeys(range(6), 2), {1: 4, 5: 4, 6: 2, 7: 2}]
    assert [len(group) for group in batch] == [2, 2, 2, 2, 6, 6, 2, 2]


def test_a_gate_gives_the_rows_of_rejected_groups_to_others():
    curriculum = curro.Curriculum(
        "least-visited", 40, allocation="screen:first=2,total=4", admission="signal"
    )
    owner = outcomes(Owner(curriculum, FillSettings()), "00", "1001", "00", "11", "01", "10")
    batch = owner.step(8, 0)
    assert owner.rounds == [{0: 2, 1: 2}, {1: 2, 2: 2, 3: 2}, {4: 2, 5: 2}]
    assert [group[0] for group in batch] == [1, 4, 5]
    assert owner.fill.batch_counts.rejected == 3


def test_prompts_that_others_have_in_flight_run_out_too():
    curriculum = curro.Curriculum("uniform", 6, admission="band:0.4,0.6")
    curriculum.select(4, step=0)
    owner = Owner(curriculum, FillSettings(when_short="error"), pass_rates=0.0)
    with pytest.raises(FillError, match="all 6 prompts were tried or are in flight, and 0 of 8"):
        owner.step(8, 0)

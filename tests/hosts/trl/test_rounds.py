"""The fill in rounds, without a model: whatever the rewards are and wherever a round breaks off."""

from __future__ import annotations

from collections import Counter, deque
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollout.fill_promises import check

import curro
from curro.core.errors import FillError
from curro.hosts.trl.batches import ScoredRow
from curro.hosts.trl.observe import GroupRecord, read_feedback
from curro.hosts.trl.processes import MainProcess
from curro.hosts.trl.rounds import fill_in_rounds
from curro.rollout.fill import Fill
from curro.rollout.fill_settings import FillSettings
from curro.rollout.group_tasks import release
from curro.runs.writer import Completion

SELECTIONS = ["uniform", "uniform:replacement=true", "prioritized-replay:variant=published", "pspo"]
ALLOCATIONS = [None, "knapsack:least=1", "probe:first=2,most=9"]
SIZE = 4


class Broken(Exception):
    """A round that breaks off."""


class Process:
    """One of the processes that train. Its rollouts are invented, and the wire between processes is a list.

    A rollout is a number of its own. Prompts are numbered as they come; their rollouts succeed as `outcomes`
    says ("x" is not scored), or at their pass rates.
    """

    def __init__(
        self, curriculum, settings, *, wire=None, processes=1, is_owner=True, outcomes=(), pass_rate=None,
        breaks=(),
    ):  # fmt: skip
        self.curriculum, self.breaks = curriculum, list(breaks)
        self.wire = deque() if wire is None else wire
        size, repeats = curriculum.table.size, curriculum.selection.repeats
        self.fill = Fill(settings, size=size, may_repeat=repeats, weigh=len)
        self.accelerator = SimpleNamespace(num_processes=processes, is_main_process=is_owner)
        self.rounds, self.records, self.rewards, self.numbers = [], [], [], {}
        self.main_process = MainProcess(self.accelerator)
        self.rng = np.random.default_rng(0)
        self.pass_rates = self.rng.random(size) if pass_rate is None else np.full(size, pass_rate)
        self.outcomes = [iter(marks) for marks in outcomes]

    def roll_out_round(self, draw):
        prompts = np.repeat(draw.prompts, draw.rollouts).tolist()
        if self.breaks and self.breaks.pop(0):
            raise Broken
        assert len(prompts) % self.accelerator.num_processes == 0
        self.rounds.append(dict(Counter(self.number(prompt) for prompt in prompts)))
        first = len(self.rewards)
        self.rewards += [self.reward(prompt) for prompt in prompts]
        return [
            ScoredRow(
                {"prompt": torch.tensor(prompt), "number": torch.tensor(number)},
                torch.tensor([self.rewards[number]]), Completion("", 1, False),
            )
            for number, prompt in enumerate(prompts, start=first)
        ]  # fmt: skip

    def feedback(self, tickets, rewards, sizes):
        return read_feedback(tickets, rewards, sizes, weights=torch.ones(1), names=["reward"])

    def observe(self, draw, rewards, completions):
        feedback = self.feedback(draw.tickets, rewards, draw.rollouts)

        def judge():
            try:
                verdict = self.curriculum.observe(**feedback.arguments())
            except BaseException:
                self.curriculum.drop(draw.tickets)
                raise
            self.records.append(GroupRecord(self.now, draw, feedback.rewards, verdict))
            return verdict

        return self.main_process.decide(judge), feedback

    def number(self, prompt):
        return self.numbers.setdefault(prompt, len(self.numbers))

    def reward(self, prompt):
        if self.outcomes:
            return float(next(self.outcomes[self.number(prompt)]).replace("x", "nan"))
        return float(self.rng.random() < self.pass_rates[prompt])

    def step(self, rows, step):
        """The batch: the prompt of each group and the numbers of its rollouts."""
        self.records.clear()
        self.now = step
        try:
            with patch("curro.hosts.trl.processes.broadcast_object_list", self.broadcast):
                batch = fill_in_rounds(self, rows, size=SIZE, step=step)
        finally:
            held = self.fill.release()
            if self.accelerator.is_main_process:
                release(self.curriculum, held)
        return [self.described(group) for group in batch]

    def described(self, group):
        rows = [rollout.row for rollout in group.rollouts]
        numbers = [int(row["number"]) for row in rows]
        assert [float(rollout.rewards[0]) for rollout in group.rollouts] == pytest.approx(
            [self.rewards[number] for number in numbers], nan_ok=True
        )
        (prompt,) = {int(row["prompt"]) for row in rows}
        return self.number(prompt), numbers

    def broadcast(self, objects):
        if self.accelerator.is_main_process:
            self.wire.append(list(objects))
        else:
            objects[:] = self.wire.popleft()


@settings(max_examples=60, deadline=None)
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
    fill = FillSettings(limit, when_short)
    owner = Process(curriculum, fill, processes=processes, breaks=breaks if processes == 1 else ())
    other = Process(curriculum, fill, wire=owner.wire, processes=processes, is_owner=False)
    trained = []
    for step, prompts in enumerate(plan):
        rows = prompts * SIZE * processes
        try:
            batch = owner.step(rows, step)
        except Broken:
            pass
        except FillError:
            assert when_short == "error" or owner.fill.exhausted
            if processes > 1:
                with pytest.raises(FillError):
                    other.step(rows, step)
        else:
            sizes = [len(rollouts) for _, rollouts in batch]
            assert sum(sizes) >= rows > sum(sizes[:-1])
            assert processes == 1 or other.step(rows, step) == batch
            trained += [rollout for _, rollouts in batch for rollout in rollouts]
        check(owner.fill, curriculum)
        assert len(curriculum.ledger) == len(owner.fill.in_flight) == len(owner.wire) == 0
        had = np.concatenate([record.draw.prompts for record in owner.records] or [np.empty(0)])
        assert owner.fill.may_repeat or len(np.unique(had)) == len(had)
        assert processes == 1 or (other.records == [] and other.rounds == owner.rounds)
    assert len(set(trained)) == len(trained)


def test_a_round_generates_what_is_missing_rounded_up_to_the_processes():
    """2 of 4 are admitted: 4 groups, then 2; then 2 on two processes where one is missing."""
    curriculum = curro.Curriculum("least-visited", 40, admission="band:0.4,0.6")
    outcomes = ["1100", "1100", "1100", "0000", "0000", "1100", "1100", "1100"]
    owner = Process(curriculum, FillSettings(), processes=2, outcomes=outcomes)
    batch = owner.step(16, 0)
    assert [len(prompts) for prompts in owner.rounds] == [4, 2]
    assert [prompt for prompt, _ in batch] == [0, 1, 2, 5]
    assert owner.fill.batch_counts.draws == 2
    batch = owner.step(8, 1)
    assert [prompt for prompt, _ in batch] == [6, 7]  # nothing was left over


def test_a_round_looks_first_and_then_spends_where_rewards_differ():
    """8 rows: 2 prompts are looked at, and prompt 1 gets the other 4; the next round fills the rest."""
    curriculum = curro.Curriculum("least-visited", 40, allocation="probe:first=2,most=6", admission="signal")
    owner = Process(curriculum, FillSettings(), outcomes=["00", "100000", "01"])
    batch = owner.step(8, 0)
    assert owner.rounds == [{0: 2, 1: 2}, {1: 4}, {2: 2}]
    assert [(prompt, len(rollouts)) for prompt, rollouts in batch] == [(1, 6), (2, 2)]


def test_a_group_without_any_reward_has_failed_and_was_not_rejected():
    curriculum = curro.Curriculum("least-visited", 40, admission="signal")
    owner = Process(curriculum, FillSettings(), outcomes=["xxxx", "1100", "1111", "xx10"])
    batch = owner.step(8, 0)
    assert [prompt for prompt, _ in batch] == [1, 3]
    counts = owner.fill.batch_counts
    assert (counts.failed, counts.rejected, counts.rejected_reward) == (1, 1, 1.0)
    assert (curriculum.ledger.observed, curriculum.ledger.dropped) == (3, 1)


def test_the_rows_of_a_group_that_failed_count_towards_the_limit():
    """8 rows of 2 groups are the limit of one batch, though one of them has failed."""
    curriculum = curro.Curriculum("least-visited", 40, admission="signal")
    owner = Process(curriculum, FillSettings(1.0, "error"), outcomes=["xxxx", "1100"])
    with pytest.raises(FillError, match=r"limit of 1 batches was reached, .* \(1 failed\): look for the err"):
        owner.step(8, 0)
    assert len(owner.rounds) == 1


def test_prompts_that_others_have_in_flight_run_out_too():
    curriculum = curro.Curriculum("uniform", 6, admission="band:0.4,0.6")
    curriculum.select(4, step=0)
    owner = Process(curriculum, FillSettings(when_short="error"), pass_rate=0.0)
    with pytest.raises(FillError, match="all 6 prompts were tried or are in flight, and 0 of 8"):
        owner.step(8, 0)

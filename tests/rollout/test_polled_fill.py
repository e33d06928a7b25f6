"""The fill as verl drives it, without verl: its queue, its eviction and its replacements at random."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollout.fill_promises import check

import curro
from curro.core.errors import FillError, RewardError
from curro.core.groups import Feedback
from curro.rollout.polled_fill import PolledFill

SELECTIONS = ["uniform", "uniform:replacement=true", "prioritized-replay:variant=published", "pspo"]


class Queue:
    """Stands for verl's queue and its trainer: an asynchronous window, with old groups thrown away.

    Attributes:
        running, waiting: tickets of groups that are generated, and of admitted groups; with their steps.
    """

    def __init__(self, selection, gate, *, seed, limit, n, threshold):
        self.curriculum = curro.Curriculum(selection, 16, admission=gate, seed=seed)
        repeats = self.curriculum.selection.repeats
        self.fill = PolledFill(self.curriculum, limit, size=16, may_repeat=repeats)
        self.rng, self.n, self.threshold = np.random.default_rng(seed), n, threshold
        self.running, self.waiting, self.trained, self.had = {}, {}, [], []

    def ask(self, number, step):
        draw = self.fill.draw(number, step=step)
        self.had += draw.prompts.tolist()
        self.running |= dict.fromkeys(draw.tickets.tolist(), step)

    def poll(self, step):
        """Some groups have ended; returns how many were thrown away."""
        ended = [ticket for ticket in self.running if self.rng.random() < 0.6]
        stale = {
            ticket
            for ticket, since in (self.waiting | {ticket: self.running[ticket] for ticket in ended}).items()
            if step - since > self.threshold
        }
        failed = {ticket for ticket in ended if self.rng.random() < 0.15}
        lost = sorted(set(ended) & (stale | failed))
        if lost:
            self.curriculum.drop(np.array(lost))
        self.fill.dropped(lost, stale)
        self.fill.expired(sorted(stale & self.waiting.keys()))
        thrown = len(lost) + len(stale & self.waiting.keys())
        self.waiting = {ticket: since for ticket, since in self.waiting.items() if ticket not in stale}
        seen = sorted(set(ended) - set(lost))
        if seen:
            rewards_PG = self.rng.integers(0, 2, (len(seen), 4)).astype(float)
            verdict = self.curriculum.observe(np.array(seen), rewards_PG)
            filtered = {ticket for ticket in seen if self.rng.random() < 0.1}
            self.fill.observed(Feedback.read(seen, rewards_PG), verdict, filtered)
            for ticket, admitted in zip(seen, verdict.admitted, strict=True):
                if admitted and ticket not in filtered:
                    self.waiting[ticket] = self.running[ticket]
                else:
                    thrown += 1
        for ticket in ended:
            del self.running[ticket]
        return thrown

    def step(self, step):
        self.fill.begin(self.n, step, [*self.running, *self.waiting])
        self.had = list(self.fill.fill.prompts_given_out.values())
        try:
            self.ask(self.n, step)
            while len(self.waiting) < self.n:
                if thrown := self.poll(step):
                    self.fill.check()
                    self.ask(thrown, step)
                self.check()
        finally:
            self.fill.end()
        batch = sorted(self.waiting, key=self.waiting.__getitem__)[: self.n]
        for ticket in batch:
            del self.waiting[ticket]
        self.trained += batch

    def check(self):
        fill = self.fill.fill
        check(fill, self.curriculum)
        assert sorted(fill.in_flight) == sorted(self.running)
        assert sorted(fill.admitted) == sorted(self.waiting)
        assert fill.may_repeat or len(set(self.had)) == len(self.had)


@settings(max_examples=60, deadline=None)
@given(
    selection=st.sampled_from(SELECTIONS), gate=st.sampled_from(["everything", "band:0,1", "band:0.4,0.6"]),
    seed=st.integers(0, 999), limit=st.sampled_from([1.0, 3.0, 10.0]), n=st.integers(1, 4),
    threshold=st.integers(0, 2), steps=st.integers(1, 5), ahead=st.integers(0, 3),
)  # fmt: skip
def test_the_fill_knows_what_is_in_the_queue(selection, gate, seed, limit, n, threshold, steps, ahead):
    the_fill_knows_the_queue(selection, gate, seed, limit, n, threshold, steps, ahead)


def the_fill_knows_the_queue(selection, gate, seed, limit, n, threshold, steps, ahead):
    queue = Queue(selection, gate, seed=seed, limit=limit, n=n, threshold=threshold)
    if ahead:
        queue.fill.check()
        queue.ask(ahead, 0)  # warm-up, before a step begins
    for step in range(steps):
        try:
            queue.step(step)
        except FillError:
            assert queue.fill.fill.reason in ("limit", "prompts")
            break
        metrics = queue.fill.metrics()
        assert metrics["fill/given_out"] >= 0
        assert queue.fill.fill.held == []
    assert len(set(queue.trained)) == len(queue.trained)


def test_a_resumed_run_knows_the_groups_in_the_queue():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    draw = curriculum.select(4, step=3)
    verdict = curriculum.observe(draw.tickets[:2], np.eye(2))
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    observed = dict(zip(draw.tickets[:2].tolist(), verdict.prompts.tolist(), strict=True))
    fill.restore(curriculum.state_dict()["ledger"], observed)
    fill.begin(4, 4, draw.tickets.tolist())
    assert fill.fill.missing == 2
    later = fill.draw(4, step=4)
    assert not set(later.prompts.tolist()) & set(draw.prompts.tolist())
    with pytest.raises(FillError, match="all 8 prompts were tried or are in flight, and 2 of 4"):
        fill.draw(1, step=4)


def test_a_group_without_any_reward_has_failed_and_was_not_rejected():
    """No gate has seen it, so that the advice to widen the gate, which follows rejections, would be wrong."""
    curriculum = curro.Curriculum("uniform", 8, admission="signal", seed=0)
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    fill.begin(3, 0, [])
    draw = fill.draw(3, step=0)
    rewards_PG = np.array([[1.0, 0.0], [np.nan, np.nan], [1.0, 1.0]])
    verdict = curriculum.observe(draw.tickets, rewards_PG)
    fill.observed(Feedback.read(draw.tickets, rewards_PG), verdict)
    metrics = fill.metrics()
    assert metrics["fill/admitted"] == metrics["fill/rejected"] == metrics["fill/failed"] == 1
    assert metrics["fill/rejected_reward"] == 1.0


@pytest.mark.parametrize("signal", [None, "acc"])
def test_a_run_without_any_reward_ends_after_a_batch(signal):
    """In a batch of 2 groups. The part of the reward that is the signal may be missing alone."""
    curriculum = curro.Curriculum("uniform", 8, signal=signal, seed=0)
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    fill.begin(2, 0, [])

    def end(reward):
        draw = fill.draw(1, step=0)
        missing = np.full((1, 2), np.nan)
        rewards, named = (missing, {}) if signal is None else (np.eye(2)[:1], {"acc": missing})
        named |= {"form": np.ones((1, 2))}
        if reward:
            rewards, named = np.eye(2)[:1], {"acc": np.eye(2)[:1]}
        feedback = Feedback.read(draw.tickets, rewards, named)
        fill.observed(feedback, curriculum.observe(**feedback.arguments()))

    end(False)
    described = "a reward" if signal is None else "the part of the reward that is the signal"
    parts = "," if signal is None else r" \(acc\),"
    with pytest.raises(RewardError, match=f"none of the first 2 groups has {described}{parts}"):
        end(False)
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    fill.begin(2, 0, [])
    for reward in (False, True, False, False, False):
        end(reward)  # one reward is enough
    assert fill.metrics()["fill/failed"] == 4


def test_a_resumed_run_that_has_had_rewards_does_not_end():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    curriculum.observe(curriculum.select(1, step=0).tickets, [[1.0, 0.0]])
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    fill.restore(curriculum.state_dict()["ledger"], {})
    fill.begin(1, 1, [])
    feedback = Feedback.read(fill.draw(1, step=1).tickets, [[np.nan, np.nan]])
    fill.observed(feedback, curriculum.observe(**feedback.arguments()))
    assert fill.metrics()["fill/failed"] == 1


def test_no_run_ends_before_its_first_batch_has_begun():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    fill = PolledFill(curriculum, 10.0, size=8, may_repeat=False)
    missing = np.full((1, 2), np.nan)
    for begins in (False, False, True):
        if begins:
            fill.begin(2, 0, [])
        draw = fill.draw(1, step=0)
        feedback = Feedback.read(draw.tickets, missing)
        verdict = curriculum.observe(**feedback.arguments())
        with pytest.raises(RewardError, match="none of the first 3 groups") if begins else nullcontext():
            fill.observed(feedback, verdict)


def test_the_marks_of_estimates_outlive_a_checkpoint():
    """A prompt whose estimate was rejected may come once more for the same batch; unmarked it may not."""
    curriculum = curro.Curriculum("adcl:chunks=1", 2, seed=0)
    fill = PolledFill(curriculum, 10.0, size=2, may_repeat=False)
    fill.begin(2, 0, [])
    draw = fill.draw(2, step=0)
    assert fill.estimates == draw.tickets.tolist()
    resumed = PolledFill(curriculum, 10.0, size=2, may_repeat=False)
    resumed.restore(curriculum.state_dict()["ledger"], {}, fill.estimates)
    assert resumed.estimates == fill.estimates
    resumed.begin(2, 1, [])
    feedback = Feedback.read(draw.tickets, np.eye(2))
    resumed.observed(feedback, curriculum.observe(**feedback.arguments()))
    again = resumed.draw(2, step=1)
    assert sorted(again.prompts.tolist()) == [0, 1]
    assert resumed.metrics()["fill/repeats"] == 0

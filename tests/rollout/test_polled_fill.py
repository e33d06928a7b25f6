"""The fill as verl drives it, without verl; `tests/simulation` has its queue, with kills and resumes."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import curro
from curro.core.errors import FillError, RewardError
from curro.core.groups import Feedback
from curro.rollout.polled_fill import PolledFill


def test_a_resumed_run_knows_the_groups_in_the_queue():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    draw = curriculum.select(4, step=3)
    curriculum.observe(draw.tickets[:2], np.eye(2))
    fill = PolledFill(curriculum, 10.0, size=8)
    observed = dict(zip(draw.tickets[:2].tolist(), draw.prompts[:2].tolist(), strict=True))
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
    fill = PolledFill(curriculum, 10.0, size=8)
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
    fill = PolledFill(curriculum, 10.0, size=8)
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
    fill = PolledFill(curriculum, 10.0, size=8)
    fill.begin(2, 0, [])
    for reward in (False, True, False, False, False):
        end(reward)  # one reward is enough
    assert fill.metrics()["fill/failed"] == 4


def test_a_resumed_run_that_has_had_rewards_does_not_end():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    curriculum.observe(curriculum.select(1, step=0).tickets, [[1.0, 0.0]])
    fill = PolledFill(curriculum, 10.0, size=8)
    fill.restore(curriculum.state_dict()["ledger"], {})
    fill.begin(1, 1, [])
    feedback = Feedback.read(fill.draw(1, step=1).tickets, [[np.nan, np.nan]])
    fill.observed(feedback, curriculum.observe(**feedback.arguments()))
    assert fill.metrics()["fill/failed"] == 1


def test_no_run_ends_before_its_first_batch_has_begun():
    curriculum = curro.Curriculum("uniform", 8, seed=0)
    fill = PolledFill(curriculum, 10.0, size=8)
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
    fill = PolledFill(curriculum, 10.0, size=2)
    fill.begin(2, 0, [])
    draw = fill.draw(2, step=0)
    assert fill.estimates == draw.tickets.tolist()
    resumed = PolledFill(curriculum, 10.0, size=2)
    resumed.restore(curriculum.state_dict()["ledger"], {}, fill.estimates)
    assert resumed.estimates == fill.estimates
    resumed.begin(2, 1, [])
    feedback = Feedback.read(draw.tickets, np.eye(2))
    resumed.observed(feedback, curriculum.observe(**feedback.arguments()))
    again = resumed.draw(2, step=1)
    assert sorted(again.prompts.tolist()) == [0, 1]
    assert resumed.metrics()["fill/repeats"] == 0

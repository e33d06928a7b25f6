"""What was drawn against what was trained on: worked by hand, and the warning where hard prompts starve."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from curro import Curriculum


def settled(harder, *, groups=100):
    """Even prompts succeed in 3/4 of their rollouts, odd ones in 1/4; then half of them are dropped."""
    curriculum = Curriculum("least-visited", 2 * groups, admission="signal")
    for step in range(2):
        draw = curriculum.select(2 * groups, step=step)
        is_odd = draw.prompts % 2 == 1
        rewards = np.where(is_odd[:, None], [1, 0, 0, 0], [1, 1, 1, 0]).astype(float)
        is_lost = (is_odd if harder else ~is_odd) & (step == 1)
        curriculum.drop(draw.tickets[is_lost], "stale")
        curriculum.observe(draw.tickets[~is_lost], rewards[~is_lost])
    return curriculum


def test_rates_by_hand():
    curriculum = Curriculum("least-visited", 4, admission="band:0.1,0.9")
    assert "drawn/success_rate" not in curriculum.metrics()
    first = curriculum.select(4, step=0)
    curriculum.observe(first.tickets, [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
    rate = dict(zip(first.prompts.tolist(), [0.75, 0.25, 0.5, 0.25], strict=True))
    second = curriculum.select(4, step=1)
    rates = np.array([rate[prompt] for prompt in second.prompts.tolist()])
    curriculum.drop(second.tickets[:1])
    curriculum.observe(second.tickets[1:], [[0, 0], [1, 0], [1, 0]])  # the first of them is not admitted
    metrics = curriculum.metrics()
    assert metrics["drawn/success_rate"] == pytest.approx(rates.mean())
    assert metrics["dropped/success_rate"] == pytest.approx(rates[0])
    assert metrics["rejected/success_rate"] == pytest.approx(rates[1])
    assert metrics["trained/success_rate"] == pytest.approx(rates[2:].mean())


def test_a_warning_where_the_dropped_prompts_are_harder():
    with pytest.warns(
        RuntimeWarning, match="rates of 0.75 and 0.50 .* 100 were stale, with 0.25.* it starves"
    ):
        settled(harder=True)


def test_no_warning_where_they_are_easier():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = settled(harder=False).metrics()
    assert (metrics["stale/success_rate"], metrics["trained/success_rate"]) == (0.75, 0.25)


def test_a_gate_alone_is_measured_and_warned_of():
    """Of 100 prompts half succeed in 1/8, and then in no rollout, which the gate rejects."""
    curriculum = Curriculum("least-visited", 100, admission="signal")
    first = curriculum.select(100, step=0)
    is_hard = first.prompts % 2 == 1
    curriculum.observe(first.tickets, np.arange(8) < np.where(is_hard, 1, 4)[:, None])
    second = curriculum.select(100, step=1)
    is_hard = second.prompts % 2 == 1
    with pytest.warns(
        RuntimeWarning, match=r"0\.50 and 0\.31 .* 50 were rejected, with 0\.12.* pass the gate"
    ) as record:
        curriculum.observe(second.tickets, np.arange(8) < np.where(is_hard, 0, 4)[:, None])
    metrics = curriculum.metrics()
    rates = [metrics[f"{fate}/success_rate"] for fate in ("drawn", "trained", "rejected")]
    assert rates == [0.3125, 0.5, 0.125]
    assert record[0].filename == __file__


def test_what_was_never_rolled_out_does_not_count():
    curriculum = Curriculum("least-visited", 4)
    first = curriculum.select(4, step=0)
    curriculum.observe(first.tickets, [[1, 0]] * 4)
    curriculum.drop(curriculum.select(4, step=1).tickets, "")
    assert "drawn/success_rate" not in curriculum.metrics()


def test_a_warning_that_a_user_made_an_error_settles_nothing():
    curriculum = Curriculum("least-visited", 100, admission="signal")
    first = curriculum.select(100, step=0)
    is_hard = first.prompts % 2 == 1
    curriculum.observe(first.tickets, np.arange(8) < np.where(is_hard, 1, 4)[:, None])
    second = curriculum.select(100, step=1)
    rewards = np.arange(8) < np.where(second.prompts % 2 == 1, 0, 4)[:, None]
    before = curriculum.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="easier than those that are drawn"):
            curriculum.observe(second.tickets, rewards)
        np.testing.assert_equal(curriculum.state_dict(), before)
        curriculum.observe(second.tickets, rewards)
    assert curriculum.table["visits"].tolist() == [2] * 100

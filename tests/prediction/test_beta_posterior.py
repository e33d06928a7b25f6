"""The posterior as a predictor: Beta for 0/1 rewards, draws or expectations, fading evidence."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum
from curro.prediction.frontier import BetaPosterior
from curro.selection.predicted import Predicted


def predictor_after(rewards, *, at=0, size=2, reward_range=(0.0, 1.0), **options):
    """The predictor of two prompts whose first had these rewards at step `at`."""
    selection = Predicted(predictor={"name": "beta", **options})
    curriculum = Curriculum(selection, size, reward_range=reward_range)
    draw = curriculum.select(size, step=at)
    curriculum.observe(draw.tickets[draw.prompts == 0], [rewards])
    curriculum.drop(draw.tickets[draw.prompts != 0])
    return selection.predictor


def test_the_expected_informativeness_is_ab_over_the_beta_posterior():
    predictor = predictor_after([1, 1, 1, 0, 1, 1, 0, 1], thompson=False)
    # the learnt prior is Beta(160/59, 96/59), as tests/prediction/test_posterior.py works it out;
    # with 6 successes and 2 failures: Beta(514/59, 214/59)
    for prompt, a, b in ((0, 514 / 59, 214 / 59), (1, 160 / 59, 96 / 59)):
        prompts = np.array([prompt])
        assert predictor.success_rate(prompts, 0)[0] == pytest.approx(a / (a + b), rel=1e-7)
        expected = a * b / ((a + b) * (a + b + 1))
        assert predictor.informativeness(prompts, 0)[0] == pytest.approx(expected, rel=1e-7)


def test_evidence_halves_every_half_life():
    predictor = predictor_after([1, 1, 1, 0, 1, 1, 0, 1], thompson=False, half_life=10, at=5)
    # 20 steps later a quarter of 6 and 2 is left
    a, b = 160 / 59 + 1.5, 96 / 59 + 0.5
    assert predictor.success_rate(np.array([0]), 25)[0] == pytest.approx(a / (a + b), rel=1e-7)
    assert predictor.metrics()["posterior/half_life"] == 10


def test_draws_have_the_moments_of_the_posterior():
    predictor = predictor_after([1, 1, 1, 0, 1, 1, 0, 1])
    a, b = 514 / 59, 214 / 59
    prompts = np.zeros(20_000, np.int64)
    rates = predictor.success_rate(prompts, 0)
    assert rates.mean() == pytest.approx(a / (a + b), abs=0.003)
    assert rates.var() == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=0.05)
    drawn = predictor.informativeness(prompts, 0)
    assert drawn.mean() == pytest.approx(a * b / ((a + b) * (a + b + 1)), abs=0.002)
    assert drawn.max() <= 0.25


def test_other_rewards_are_fractions_of_a_success():
    # 1 and 3 on a scale from 0 to 4 are a quarter and three quarters: mean 1/2, variance 1/16
    predictor = predictor_after([1, 3], reward_range=(0, 4), thompson=False)
    same = predictor_after([0.25, 0.75], thompson=False)
    prompts = np.array([0, 1])
    for one in (predictor, same):
        # The pseudo-visit (mean 1/2, square 1/2, within 1/6) and this one (1/2, 5/16, 1/8), averaged: 1/2,
        # 13/32, 7/48. Total 13/32 - 1/4 = 5/32, between 5/32 - 7/48 = 1/96, k = 14. With both rewards K = 16,
        # T = (14 5/32 + 2/16) / 16 = 37/256, and T K / (K + 1) = 37/272; the other prompt has 5/32 14/15.
        expected = [37 / 272, 7 / 48]
        np.testing.assert_allclose(one.informativeness(prompts, 0), expected, rtol=1e-7)
        np.testing.assert_allclose(one.success_rate(prompts, 0), 0.5, rtol=1e-7)


def test_rewards_beyond_the_range_are_in_its_units():
    wide = predictor_after([0, 3], reward_range=(0, 1))
    prompts = np.zeros(20_000, np.int64)
    drawn = wide.informativeness(prompts, 0)
    assert drawn.mean() == pytest.approx(wide.posterior.expected(prompts[:1], 0)[0][0], rel=0.02)
    assert drawn.mean() > 1
    assert 0 <= wide.success_rate(prompts, 0).min() < wide.success_rate(prompts, 0).max() <= 3


@pytest.mark.parametrize("half_life", [0, -1, float("nan")])
def test_a_half_life_is_above_0(half_life):
    with pytest.raises(ConfigError, match="half_life is a number of training steps above 0"):
        BetaPosterior(half_life=half_life)

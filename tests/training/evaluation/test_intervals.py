"""Evaluations: intervals worked out by hand, how often they hold the truth, and which samples are right."""

import numpy as np
import pytest
import torch

from curro.core.errors import ConfigError
from curro.core.intervals import Z95
from curro.reward import Reward
from curro.reward.resolve import WeightedReward
from curro.rollout import sampling
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.evaluation_results import (
    held_out_scores,
    interval_over_problems,
    pass_at_k,
    pass_at_k_of_each,
)


def test_of_one_sample_it_is_wilsons_interval():
    # 1 of 10: (.1 + z2/20 -+ z sqrt(.09/10 + z2/400)) / (1 + z2/10) with z2 = 3.8415
    low, high = interval_over_problems(np.array([1.0] + [0.0] * 9), 1)
    assert (round(low, 4), round(high, 4)) == (0.0179, 0.4042)


def test_no_problem_solved_leaves_room_above():
    # z2 / (30 + z2)
    low, high = interval_over_problems(np.zeros(30), 16)
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(Z95**2 / (30 + Z95**2))
    assert interval_over_problems(np.ones(30), 16)[1] == pytest.approx(1)


def test_values_between_0_and_1_count_for_more_problems():
    # mean .5, variance .01: n = 4 x .25 / .01 = 100, but no more than 4 x 16 samples
    values = np.array([0.4, 0.6, 0.4, 0.6])
    low, high = interval_over_problems(values, 16)
    z2, n = Z95**2, 64
    half = Z95 * np.sqrt(0.25 / n + z2 / (4 * n * n)) / (1 + z2 / n)
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))


def test_values_beyond_0_to_1_have_the_interval_of_a_mean():
    # mean .5, variance 2.25 of -1 and 2: .5 -+ 1.96 sqrt(2.25 / 3)
    half = Z95 * np.sqrt(0.75)
    expected = pytest.approx((0.5 - half, 0.5 + half))
    assert interval_over_problems(np.array([-1.0, 2.0, -1.0, 2.0]), 4) == expected
    assert interval_over_problems(np.array([-1.0]), 4) == (-np.inf, np.inf)


@pytest.mark.parametrize(("problems", "samples"), [(30, 1), (30, 16), (200, 4)])
def test_19_of_20_intervals_hold_the_truth(problems, samples):
    """Problems of a population whose pass rates are Beta(.4, .8): mean 1/3."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        rates = rng.beta(0.4, 0.8, problems)
        low, high = interval_over_problems(rng.binomial(samples, rates) / samples, samples)
        held += low <= 1 / 3 <= high
    assert 0.93 <= held / 2000 <= 0.97


def test_pass_at_k_of_each_problem():
    # 1 - C(3, 2)/C(4, 2) = 1/2 with one right of four
    assert pass_at_k_of_each(np.array([0, 1, 4]), 4, 2).tolist() == [0.0, 0.5, 1.0]
    assert pass_at_k(np.array([0, 1, 4]), 4, 2) == 0.5
    with pytest.raises(ConfigError, match="pass@5 needs at least 5 samples"):
        pass_at_k_of_each(np.array([0]), 4, 5)


def test_held_out_samples_are_right_by_the_signal(monkeypatch):
    """Two samples each of two prompts: the answers are right, wrong; right, right."""

    class Model(torch.nn.Module):
        device = torch.device("cpu")

    rows = [{"prompt": "1 =", "answer": "1"}, {"prompt": "2 =", "answer": "2"}]
    texts = ["1", "x", "2", "2"]
    monkeypatch.setattr(sampling, "attempts", lambda *_, **__: (texts, [row for row in rows for _ in "ab"]))
    right = Reward(
        "right",
        lambda texts, rows: [float(text == row["answer"]) for text, row in zip(texts, rows, strict=True)],
    )
    other = Reward("other", lambda texts, rows: [-0.5, 3.0, -0.5, 0.0])
    reward = WeightedReward("both", [(1.0, right), (0.5, other)])  # 0.75, 1.5, 0.75 and 1
    arguments = Model(), None, rows, reward
    options = {"samples": 2, "settings": SamplingSettings(4, 1.0)}
    by_sum = sampling.evaluate(*arguments, **options)
    assert by_sum == {"eval/pass@1": 0.5, "eval/pass@2": 1.0, "eval/reward": 1.0}
    by_signal = sampling.evaluate(*arguments, **options, signal=("right",))
    assert by_signal == {"eval/pass@1": 0.75, "eval/pass@2": 1.0, "eval/reward": 1.0}


def test_held_out_samples_without_a_reward_fail_on_any_range():
    """Rewards are from -1 to 0, a success: no sample of the first prompt is right, and one of the other."""
    rewards_PG = np.array([[-1.0, np.nan], [0.0, np.nan]])
    expected = {"eval/pass@1": 0.25, "eval/pass@2": 0.5, "eval/reward": -0.75}
    assert held_out_scores(rewards_PG, (-1.0, 0.0)) == expected
    costs_PG = np.array([[3.0, 4.0], [5.0, np.nan]])
    assert held_out_scores(costs_PG, (-1.0, 0.0), rewards_PG) == expected | {"eval/reward": 3.0}

"""Group-relative and leave-one-out advantages, worked by hand."""

import numpy as np
import pytest

from curro import Curriculum


def credit(spec, rewards):
    curriculum = Curriculum("uniform", len(rewards), advantage=spec)
    return curriculum.observe(curriculum.select(len(rewards), step=0).tickets, rewards).advantages


def test_reward_less_the_mean_of_the_group():
    # means 1/4 and 2
    expected = [[0.75, -0.25, -0.25, -0.25], [-3, -1, 1, 3]]
    np.testing.assert_array_equal(credit("group", [[1, 0, 0, 0], [-1, 1, 3, 5]]), expected)


def test_over_the_standard_deviation():
    # variance (9 + 1 + 1 + 9)/4 = 5
    root = 5**0.5
    expected = np.array([[-3, -1, 1, 3]])
    np.testing.assert_allclose(
        credit("group:divide_by_std=true,epsilon=0", [[-1, 1, 3, 5]]), expected / root, rtol=1e-12
    )
    np.testing.assert_allclose(
        credit("group:divide_by_std=true", [[-1, 1, 3, 5]]), expected / (root + 1e-4), rtol=1e-12
    )


@pytest.mark.parametrize("epsilon", [0, 1e-4])
def test_equal_rewards_are_worth_nothing(epsilon):
    spec = {"name": "group", "divide_by_std": True, "epsilon": epsilon}
    assert not credit(spec, [[2, 2, 2], [0, 0, 0]]).any()


def test_rollouts_without_a_score_are_worth_nothing():
    # mean of 4 and 0 is 2
    np.testing.assert_array_equal(credit("group", [[4, np.nan, 0]]), [[2, 0, -2]])


def test_a_deviation_of_rounding_is_none():
    # .1 + .2 is not .3 by one bit
    assert np.abs(credit("group:divide_by_std=true,epsilon=0", [[0.1 + 0.2, 0.3, 0.3, 0.3]])).max() < 1e-15


def test_less_the_mean_of_the_others():
    # 1 - 0, 0 - 1/3; and 6 - 1, 0 - 3, 2 - 2, 2 - 8/3 ...: others of 6 are 0, 2, 1
    np.testing.assert_allclose(credit("leave-one-out", [[1, 0, 0, 0]]), [[1, -1 / 3, -1 / 3, -1 / 3]])
    np.testing.assert_allclose(credit("leave-one-out", [[6, 0, 2, 1]]), [[5, -3, -1 / 3, -5 / 3]], rtol=1e-12)


def test_only_the_scored_count():
    np.testing.assert_allclose(credit("leave-one-out", [[3, np.nan, 1]]), [[2, 0, -2]])


def test_equal_rewards_and_a_lonely_one_are_worth_nothing():
    assert not credit("leave-one-out", [[0.1, 0.1, 0.1], [7, np.nan, np.nan]]).any()

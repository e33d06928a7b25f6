"""Leave-one-out advantages, worked by hand."""

import numpy as np

from curro import Curriculum


def credit(rewards, scored=None):
    curriculum = Curriculum("uniform", len(rewards), advantage="leave-one-out")
    return curriculum.observe(
        curriculum.select(len(rewards), step=0).tickets, rewards, scored=scored
    ).advantages


def test_less_the_mean_of_the_others():
    # 1 - 0, 0 - 1/3; and 6 - 1, 0 - 3, 2 - 2, 2 - 8/3 ...: others of 6 are 0, 2, 1
    np.testing.assert_allclose(credit([[1, 0, 0, 0]]), [[1, -1 / 3, -1 / 3, -1 / 3]])
    np.testing.assert_allclose(credit([[6, 0, 2, 1]]), [[5, -3, -1 / 3, -5 / 3]], rtol=1e-12)


def test_only_the_scored_count():
    np.testing.assert_allclose(credit([[3, 9, 1]], [[1, 0, 1]]), [[2, 0, -2]])


def test_equal_rewards_and_a_lonely_one_are_worth_nothing():
    assert not credit([[0.1, 0.1, 0.1], [7, 1, 1]], [[1, 1, 1], [1, 0, 0]]).any()

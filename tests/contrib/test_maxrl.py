"""MaxRL's advantages, worked by hand."""

import numpy as np
import pytest

from curro import Curriculum


def credit(spec, rewards):
    curriculum = Curriculum("uniform", len(rewards), advantage=spec)
    return curriculum.observe(curriculum.select(len(rewards), step=0).tickets, rewards).advantages


def test_maxrl_is_over_the_success_rate():
    # means 1/4, 3/4 and 1
    rewards = [[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    expected = [[3, -1, -1, -1], [1 / 3, 1 / 3, 1 / 3, -1], [0, 0, 0, 0]]
    np.testing.assert_allclose(credit("maxrl", rewards), expected, rtol=1e-12)


def test_maxrl_of_failures_and_of_what_was_not_scored():
    nan = np.nan
    np.testing.assert_array_equal(credit("maxrl", [[0, 0, 0], [nan, 1, 0]]), [[0, 0, 0], [0, 1, -1]])


def test_maxrl_counts_from_the_lower_end_of_the_range():
    curriculum = Curriculum("uniform", 1, advantage="maxrl", reward_range=(-1, 1))
    verdict = curriculum.observe(curriculum.select(1, step=0).tickets, [[1, -1, -1, -1]])
    # a mean of -1/2 is 1/2 above -1: 3/2 and -1/2 over 1/2
    np.testing.assert_allclose(verdict.advantages, [[3, -1, -1, -1]])


def test_maxrl_is_over_the_success_rate_of_the_signal():
    curriculum = Curriculum("uniform", 2, advantage="maxrl", signal="math")
    right, form = np.array([[1, 0, 0, 0], [0, 0, 0, 0.0]]), np.array([[-1, -1, -1, -1], [1, 0, 0, 0.0]])
    tickets = curriculum.select(2, step=0).tickets
    verdict = curriculum.observe(tickets, right + form, named={"math": right, "form": form})
    # a mean of -3/4 in the first group: 3/4 and -1/4 over the success rate 1/4; no success in the second
    np.testing.assert_allclose(verdict.advantages, [[3, -1, -1, -1], [0, 0, 0, 0]])


def test_maxrl_follows_the_truncated_likelihood():
    """Over all groups of 3 at the success rate p: d/dp of -(1-p) - (1-p)^2/2, the first 2 terms, is 1 +
    (1-p)."""
    p, expected = 0.3, 0.0
    for outcome in np.ndindex(2, 2, 2):
        chance = np.prod([p if right else 1 - p for right in outcome])
        score = [1 / p if right else -1 / (1 - p) for right in outcome]  # of log p and log (1-p)
        expected += chance * np.mean(credit("maxrl", [outcome])[0] * score)
    assert expected == pytest.approx(1 + 0.7)

"""What past outcomes say of a level: which groups count for the regression, and how much."""

from __future__ import annotations

import numpy as np
import pytest

from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.data.levels import Levels
from curro.methods.prediction.levels import LevelPosterior


class Ten:
    """Ten levels."""

    name = "ten"
    levels = tuple({"size": size} for size in range(10))

    def problem(self, level, rng):
        return {"prompt": f"{level}: {rng.random()}"}


class Regression:
    """Keeps what it is fitted to."""

    def fit(self, features_KD, rate_K, weight_K):
        self.arms_K, self.weight_K = (9 * features_KD[:, 1]).round().astype(int), weight_K

    def predict(self, features_ND):
        return np.full(len(features_ND), 0.5)


@pytest.fixture
def posterior():
    levels = Levels([Ten()])
    made = LevelPosterior()
    made.bind(PromptTable(levels.keys, rows=levels.rows, levels=levels))
    made.regression = Regression()
    return made


def observe(posterior, arms, step):
    """Groups of 4 rollouts of these arms, half of them right."""
    rewards = np.tile([1.0, 0.0, 1.0, 0.0], (len(arms), 1))
    half, quarter = np.full((2, len(arms)), 0.5) * [[1], [0.5]]
    steps = np.full(len(arms), step)
    posterior.observe(Groups(np.array(arms), steps, rewards, np.ones((len(arms), 4), bool), half, quarter))


def weights(posterior):
    """By arm: how many groups count, and the weight of each in units of rollouts."""
    fitted = posterior.regression
    return {
        int(arm): (int((fitted.arms_K == arm).sum()), *np.unique(fitted.weight_K[fitted.arms_K == arm] / 4))
        for arm in np.unique(fitted.arms_K)
    }


def test_the_groups_of_one_step_count_the_same_whatever_their_level(posterior):
    observe(posterior, [0, 5, 9, 9], step=0)
    posterior.learn()
    assert weights(posterior) == {0: (1, 1.0), 5: (1, 1.0), 9: (2, 1.0)}
    observe(posterior, [1] * 128, step=1)
    posterior.learn()
    assert weights(posterior) == {0: (1, 0.75), 1: (128, 1.0), 5: (1, 0.75), 9: (2, 0.75)}


def test_a_step_of_more_groups_than_the_window_counts_as_a_whole(posterior):
    observe(posterior, [3], step=0)
    observe(posterior, list(range(10)) * 60, step=1)
    posterior.learn()
    assert weights(posterior) == dict.fromkeys(range(10), (60, 1.0))


def test_a_group_that_comes_late_counts_by_its_own_step(posterior):
    observe(posterior, [1] * 256, step=7)
    posterior.learn()
    observe(posterior, [2], step=3)
    posterior.learn()
    assert weights(posterior) == {1: (256, 1.0), 2: (1, 0.5)}

"""The benchmark's statistics, by hand."""

import numpy as np
import pytest
from benchmarks.bench.statistics import (
    bootstrap,
    geometric_mean,
    iqm,
    probability_of_improvement,
    rollouts_to_level,
)


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert iqm([np.array([0.0, 1, 2, 100])]) == pytest.approx(1.5)
    assert iqm([np.array([0.0, 4]), np.array([5.0, 6, 7, 8, 9, 100])]) == pytest.approx((2 + 7.5) / 2)


def test_probability_of_improvement_counts_pairs_and_averages_tasks():
    # first task: (1 > 0), (1 = 1), (3 > 0), (3 > 1): 3.5 of 4; second: none of 2
    ours, theirs = [np.array([1.0, 3]), np.array([0.0])], [np.array([0.0, 1]), np.array([5.0, 6])]
    assert probability_of_improvement(ours, theirs) == pytest.approx(3.5 / 4 / 2)


def test_rollouts_to_the_level_are_a_share_of_the_baselines():
    x = np.array([0.0, 100, 200, 300, 400])
    uniform = np.array([[0.1, 0.2, 0.3, 0.4, 0.5]])
    assert rollouts_to_level(x, uniform, uniform) == 1
    assert rollouts_to_level(x, np.array([[0.1, 0.4, 0.6, 0.6, 0.7]]), uniform) == pytest.approx(150 / 400)
    assert rollouts_to_level(x, np.array([[0.1, 0.2, 0.2, 0.3, 0.4]]), uniform) == np.inf
    assert np.isnan(rollouts_to_level(x, uniform, np.array([[0.5, 0.4, 0.4, 0.3, 0.3]])))
    halves = np.array([[0.0, 0.3, 0.6, 0.6, 0.6], [0.2, 0.5, 0.6, 0.6, 0.8]])  # mean .1 .4 .6 .6 .7
    assert rollouts_to_level(x, halves, uniform) == pytest.approx(150 / 400)


def test_geometric_mean_of_ratios():
    found = geometric_mean([np.array([0.5, 0.5, np.nan]), np.array([2, np.inf, np.nan]), np.full(3, np.nan)])
    assert found[:2].tolist() == [pytest.approx(1), np.inf]
    assert np.isnan(found[2])


@pytest.mark.parametrize(("seeds", "trials", "least", "most"), [(40, 200, 0.88, 0.99), (5, 500, 0.92, 0.98)])
def test_the_bootstrap_covers_a_known_mean(seeds, trials, least, most):
    """95% intervals for a mean of normal numbers; of the plain quantiles' 86% hold the mean of five seeds."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(trials):
        found = bootstrap(lambda group: group[0].mean(axis=-1), [rng.normal(size=seeds)])
        held += found.low <= 0 <= found.high
    assert least <= held / trials <= most


def test_one_seed_has_no_interval():
    found = bootstrap(iqm, [np.array([0.25])])
    assert (found.value, found.low, found.high) == (0.25, 0.25, 0.25)


def test_the_bootstrap_draws_within_tasks_and_takes_infinite_values():
    tasks = [np.array([0.0, 0.0]), np.array([1.0, 1.0])]
    found = bootstrap(
        lambda group: np.mean([runs.mean(axis=-1) for runs in group], axis=0), tasks, resamples=50
    )
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    found = bootstrap(
        lambda group: np.where(group[0].min(axis=-1) == 0, np.inf, 1.0), [np.array([0.0, 1, 1])]
    )
    assert (found.value, found.low, found.high) == (np.inf, 1, np.inf)


def test_the_same_seed_gives_the_same_interval():
    group = [np.random.default_rng(0).normal(size=9)]
    assert bootstrap(iqm, group, resamples=100) == bootstrap(iqm, group, resamples=100)

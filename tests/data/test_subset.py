"""Stratified subsets, against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.data import DataError, stratified_subset

EDGES = [0.0, 0.5]  # three strata: never solved, up to half, above half


def counts(rates: list[float], n: int, edges: list[float] = EDGES) -> list[int]:
    chosen = np.asarray(rates)[stratified_subset(rates, n, bins=edges, seed=3)]
    return np.bincount(np.searchsorted(edges, chosen), minlength=len(edges) + 1).tolist()


def test_the_largest_remainder_gets_the_place_left_over():
    # 4 places for strata of 5, 3 and 2: due 2.0, 1.2, 0.8; whole parts 2, 1, 0; the last place to 0.8
    assert counts([0.0] * 5 + [0.5] * 3 + [1.0] * 2, 4) == [2, 1, 1]


def test_equal_remainders_go_to_the_lower_rates():
    # 5 places for 3, 3 and 3: due 1.67 each; two of the three remainders get one
    assert counts([1.0, 0.2, 0.0] * 3, 5) == [2, 2, 1]
    assert counts([1.0, 0.2, 0.0] * 3, 4) == [2, 1, 1]


def test_a_small_stratum_may_get_nothing():
    # 2 places for 9 and 1: due 1.8 and 0.2
    assert counts([0.0] * 9 + [1.0], 2) == [2, 0, 0]


def test_all_of_them_and_one_of_them():
    assert stratified_subset([0.1, 0.9, 0.5], 3).tolist() == [0, 1, 2]
    assert stratified_subset([0.1, 0.1, 0.1, 0.9], 1, bins=[0.5]).tolist()[0] in (0, 1, 2)


def test_quantiles_that_coincide_are_one_stratum():
    # quartile edges of these 8 rates are 0, 0 and 0.4, so the strata are {0} x 4, {0.3, 0.4}, {0.6, 1.0}
    rates = [0.0, 0.0, 0.0, 0.0, 0.3, 0.4, 0.6, 1.0]
    for seed in range(5):
        chosen = np.asarray(rates)[stratified_subset(rates, 4, bins=4, seed=seed)]
        assert [(chosen == 0).sum(), ((chosen > 0) & (chosen < 0.5)).sum(), (chosen > 0.5).sum()] == [2, 1, 1]


def test_a_subset_of_the_papers_size_has_the_papers_distribution():
    rng = np.random.default_rng(0)
    rates = np.where(rng.random(47_844) < 0.6, 0.0, rng.integers(0, 65, 47_844) / 64)
    chosen = rates[stratified_subset(rates, 1000)]
    assert len(chosen) == 1000
    assert abs((chosen == 0).mean() - (rates == 0).mean()) <= 0.001
    # every stratum is within one place of its due, so no point of the distribution is off by more than one
    # stratum's width and a place for each
    assert (
        np.abs(
            (chosen[:, None] <= np.arange(65) / 64).mean(0) - (rates[:, None] <= np.arange(65) / 64).mean(0)
        ).max()
        < 0.03
    )


def test_the_seed_decides_and_nothing_else():
    rates = np.linspace(0, 1, 100)
    first = stratified_subset(rates, 30, seed=1)
    assert first.tolist() == stratified_subset(rates, 30, seed=1).tolist()
    assert first.tolist() != stratified_subset(rates, 30, seed=2).tolist()


@pytest.mark.parametrize(
    ("rates", "n", "bins", "message"),
    [
        ([0.5, float("nan")], 1, 4, "finite"),
        ([[0.5]], 1, 4, r"shape \(1, 1\)"),
        ([0.5], 2, 4, "a subset of 2 cannot be chosen from 1"),
        ([0.5], 0, 4, "a subset of 0"),
        ([], 1, 4, "from 0 prompts"),
        ([0.5], 1, 0, "at least one"),
        ([0.5], 1, [0.5, 0.5], "must increase"),
        ([0.5], 1, [float("nan"), 0.5], "must increase"),
    ],
)
def test_mistakes(rates, n, bins, message):
    with pytest.raises(DataError, match=message):
        stratified_subset(rates, n, bins=bins)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 8).map(lambda k: k / 8), min_size=1, max_size=60).flatmap(
        lambda rates: st.tuples(st.just(rates), st.integers(1, len(rates)))
    ),
    st.integers(1, 10) | st.lists(st.floats(-1, 2), unique=True, max_size=6).map(sorted),
)
def test_size_is_exact_and_every_stratum_within_one_of_its_due(rates_n, bins):
    rates, n = np.asarray(rates_n[0]), rates_n[1]
    ids = stratified_subset(rates, n, bins=bins)
    assert len(set(ids.tolist())) == n
    assert (np.diff(ids) > 0).all()
    if not isinstance(bins, int):
        strata = np.searchsorted(bins, rates)
        for s in np.unique(strata):
            assert abs((strata[ids] == s).sum() - n * (strata == s).mean()) < 1

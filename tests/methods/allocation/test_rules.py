"""How many rollouts each prompt gets: by hand, and against trying out everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.methods.allocation.equal import Equal
from curro.methods.allocation.knapsack import Knapsack, both_outcomes


def best_by_trying(value_PN, least, budget):
    """The highest total value of all N (P,) from `least` that sum to the budget."""
    most = value_PN.shape[1] - 1
    ways = itertools.product(range(least, most + 1), repeat=len(value_PN))
    return max(sum(v[n] for v, n in zip(value_PN, way, strict=True)) for way in ways if sum(way) == budget)


def total(value_PN, chosen_P):
    return value_PN[np.arange(len(chosen_P)), chosen_P].sum()


def give(rule, belief, budget):
    rule.check(len(belief[0]), budget)
    return rule.divide(*belief, budget)


def known(*rates, weight=1e9):
    """A belief that is all but certain of these success rates."""
    return weight * np.array(rates), weight * (1 - np.array(rates))


def test_equal_by_hand():
    assert Equal()(np.arange(3), 9, 0).tolist() == [3, 3, 3]
    assert Equal()(np.arange(3), 11, 0).tolist() == [4, 4, 3]


def test_values_by_hand():
    # p = 1/2: worth 1/8; N = 2: 1 - 1/4 - 1/4 = 1/2; N = 3: 1 - 1/8 - 1/8 = 3/4
    np.testing.assert_allclose(both_outcomes(*known(0.5), 3)[0], [0, 0, 1 / 16, 3 / 32], atol=1e-9)
    # p uniform: E[p(1-p)^2] = 1/12; N = 2 lacks E[p^3 (1-p)^2] = 1/60 and E[p (1-p)^4] = 1/30: 1/30
    np.testing.assert_allclose(both_outcomes(np.ones(1), np.ones(1), 2)[0], [0, 0, 1 / 30], atol=1e-15)


def test_knapsack_by_hand():
    # known p of 1/2, 0.9 and 0: a third rollout adds 1/32 at 1/2, at 0.9 0.009 * (0.9^2 * 0.1 + ...) = 0.0008
    assert give(Knapsack(), known(0.5, 0.9, 1e-9), 8).tolist() == [4, 2, 2]
    assert give(Knapsack(least=0), known(0.5, 0.9, 1e-9), 8)[2] == 0
    # what is not known is tried out: Beta(1/10, 1/2) beside a certain 1/6, which has the same mean
    a, b = known(1 / 6)
    both = np.r_[a, 0.1], np.r_[b, 0.5]
    sure, unsure = give(Knapsack(), both, 24)
    assert sure > unsure


def test_a_hard_prompt_gets_what_one_rollout_at_a_time_would_not_give():
    """The first rollout gains nothing: a greedy choice by single rollouts would never begin."""
    chosen_P = give(Knapsack(least=0), known(0.3, 0.3), 4)
    value_PN = both_outcomes(*known(0.3, 0.3), 4)
    assert total(value_PN, chosen_P) == pytest.approx(best_by_trying(value_PN, 0, 4), abs=1e-12)
    assert sorted(chosen_P.tolist()) in ([0, 4], [2, 2])
    assert min(give(Knapsack(least=0), known(0.3, 0.3), 8)) > 0


BETAS = st.lists(st.tuples(*[st.floats(0.01, 50, allow_subnormal=False)] * 2), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(BETAS, st.integers(0, 2), st.integers(1, 6), st.data())
def test_nothing_is_better(betas, least, spread, data):
    a_P, b_P = np.array(betas).T
    most = least + spread
    budget = data.draw(st.integers(max(1, least * len(betas)), most * len(betas)))
    chosen_P = give(Knapsack(least=least, most=most), (a_P, b_P), budget)
    assert chosen_P.sum() == budget
    assert chosen_P.min() >= least
    assert chosen_P.max() <= most
    value_PN = both_outcomes(a_P, b_P, most)
    assert total(value_PN, chosen_P) == pytest.approx(
        best_by_trying(value_PN, least, budget), rel=1e-10, abs=1e-14
    )

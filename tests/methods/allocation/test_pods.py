"""PODS: which rollouts of a group are trained on, and with what advantages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro import Curriculum
from curro.methods.allocation.pods import largest_variance


@pytest.mark.parametrize(
    ("rewards", "keep", "expected"),
    [
        # {1, .1, 0} has the variance .2022, {1, .8, 0} only .1867
        ([0.1, 1.0, 0.2, 0.3, 0.8, 0.0], 3, [0, 1, 5]),
        # half successes and half failures, where there are enough of both
        ([0, 0, 1, 0, 1, 1, 0, 0], 4, 2),
        # all successes where there are few of them
        ([0, 0, 0, 0, 0, 1, 0, 0], 4, 1),
        ([1, 1, 1, 0, 1, 1, 1, 1], 4, 3),
        ([5, 5, 5, 5], 2, 10),
    ],
)
def test_by_hand(rewards, keep, expected):
    chosen = sorted(largest_variance(np.array(rewards, float), keep).tolist())
    assert len(set(chosen)) == keep
    assert (chosen if isinstance(expected, list) else sum(rewards[i] for i in chosen)) == expected


@settings(max_examples=200, deadline=None)
@given(
    rewards=st.lists(
        st.one_of(st.integers(0, 1), st.integers(-3, 3), st.floats(-1e6, 1e6)), min_size=2, max_size=9
    ),
    share=st.floats(0, 1),
)
def test_no_subset_has_a_larger_variance(rewards, share):
    rewards_n = np.array(rewards, float)
    m = 2 + round(share * (len(rewards) - 2))
    chosen = largest_variance(rewards_n, m)
    assert len(set(chosen.tolist())) == m
    subsets = np.array(list(itertools.combinations(range(len(rewards)), m)))
    most = rewards_n[subsets].var(axis=1).max()
    assert rewards_n[chosen].var() >= most - 1e-9 * np.abs(rewards_n).max() ** 2


def observed(spec, rewards, advantage="group"):
    curriculum = Curriculum("uniform", 3, allocation=spec, advantage=advantage)
    draw = curriculum.select(1, step=0)
    assert draw.rollouts.tolist() == [6]
    assert curriculum.more(draw.tickets, [rewards]).tolist() == [0]
    return curriculum.observe(draw.tickets, [rewards]), curriculum


REWARDS = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "advantage", "expected"),
    [
        # a success and a failure: relative to their mean 1/2, to the other one, or to the mean 1/6 of all six
        ("", "group", [1 / 2, -1 / 2]),
        ("", "leave-one-out", [1, -1]),
        (",baseline=all", "group", [5 / 6, -1 / 6]),
    ],
)
def test_advantages_by_hand(options, advantage, expected):
    verdict, curriculum = observed(f"pods:total=6,keep=2{options}", REWARDS, advantage)
    kept = verdict.kept[0]
    assert (kept.sum(), kept[2]) == (2, True)
    assert verdict.advantages[0, 2] == pytest.approx(expected[0], rel=1e-12)
    failure = int(np.flatnonzero(kept & (np.arange(6) != 2))[0])
    assert verdict.advantages[0, failure] == pytest.approx(expected[1], rel=1e-12)
    assert not verdict.advantages[0, ~kept].any()
    # everything else sees all six: mean 1/6, variance 5/36
    assert verdict.mean[0] == pytest.approx(1 / 6)
    assert verdict.informativeness[0] == pytest.approx(5 / 36)
    assert np.nanmax(curriculum.table["reward_mean"]) == pytest.approx(1 / 6)


def test_rollouts_that_were_not_scored_are_never_kept():
    nan = np.nan
    verdict, _ = observed("pods:total=6,keep=3", [1.0, nan, 0.0, nan, 1.0, 0.0])
    assert verdict.kept[0].sum() == 3
    assert not verdict.kept[0, [1, 3]].any()
    verdict, _ = observed("pods:total=6,keep=3", [1.0, nan, nan, nan, nan, 0.0])
    assert verdict.kept[0].tolist() == [True, False, False, False, False, True]


def test_the_expected_gradient_by_enumeration():
    """docs/allocation.md: the factor of the gradient's size per trained rollout, with leave-one-out.

    The score of a success is 1/p on average, that of a failure -1/(1-p), in units of the gradient of p. Of 6
    rollouts 2 are kept: advantages 1 and -1 unless all are equal, so that the factor is
    (1 - p^6 - (1-p)^6) / (2 p (1-p)).
    """
    p, factor = 0.3, 0.0
    for rewards in itertools.product([0.0, 1.0], repeat=6):
        verdict, _ = observed("pods:total=6,keep=2", list(rewards), "leave-one-out")
        scores = np.where(np.array(rewards) > 0, 1 / p, -1 / (1 - p))
        chance = p ** sum(rewards) * (1 - p) ** (6 - sum(rewards))
        factor += chance * float(verdict.advantages[0] @ scores) / 2
    assert factor == pytest.approx((1 - p**6 - (1 - p) ** 6) / (2 * p * (1 - p)), rel=1e-9)

"""Look first, then spend: by hand, as a property, and what it makes of the gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro import Allocation, ConfigError, Curriculum, RewardError, TicketError


def probing(options="first=2,most=6", prompts=9, **parts):
    return Curriculum("uniform", prompts, allocation=f"probe:{options}", **parts)


def test_the_budget_goes_to_groups_that_differ():
    curriculum = probing()
    draw = curriculum.select(4, step=0)
    assert draw.rollouts.tolist() == [2, 2, 2, 2]
    before = curriculum.metrics()
    rewards = [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert curriculum.more(draw.tickets, rewards, rollouts=5).tolist() == [0, 3, 0, 2]
    assert curriculum.more(draw.tickets, rewards, rollouts=99).tolist() == [0, 4, 0, 4]  # 6 each at most
    assert curriculum.more(draw.tickets, rewards, rollouts=0).tolist() == [0, 0, 0, 0]
    assert curriculum.more(draw.tickets[:1], [[0, 0]], rollouts=8).tolist() == [0]
    # one reward does not differ from itself
    assert curriculum.more(draw.tickets[:2], [[1, np.nan], [1, 0]], rollouts=8).tolist() == [0, 4]
    np.testing.assert_equal(curriculum.metrics(), before)
    curriculum.observe(draw.tickets[:1], [[0, 0]])
    with pytest.raises(TicketError):
        curriculum.more(draw.tickets, rewards, rollouts=8)
    with pytest.raises(RewardError):
        curriculum.more(draw.tickets[1:2], [[np.inf, 0]], rollouts=8)
    with pytest.raises(ConfigError, match="from 0, not -1"):
        curriculum.more(draw.tickets[1:2], [[1, 0]], rollouts=-1)


def test_the_signal_decides():
    curriculum = probing(signal="math")
    tickets = curriculum.select(2, step=0).tickets
    math, form = np.array([[1, 1], [1, 0.0]]), np.array([[0, 0.5], [0, 0]])
    further = curriculum.more(tickets, math + form, named={"math": math, "form": form}, rollouts=4)
    assert further.tolist() == [0, 4]


def test_other_rules_give_nothing_and_own_ones_are_checked():
    curriculum = Curriculum("uniform", 3)
    assert curriculum.more(curriculum.select(1, step=0).tickets, [[1, 0]], rollouts=9).tolist() == [0]

    class Greedy(Allocation):
        needs_budget, looks_first, first = False, True, 2

        def more(self, groups, budget):
            return np.full(len(groups.prompts), budget)

    curriculum = Curriculum("uniform", 3, allocation=Greedy())
    with pytest.raises(ConfigError, match=r"Greedy allocated .* at most 3"):
        curriculum.more(curriculum.select(2, step=0).tickets, [[1, 0], [1, 0]], rollouts=3)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 8), st.integers(2, 4), st.integers(0, 6), st.integers(0, 40), st.integers(0, 2**32))
def test_no_budget_is_exceeded_and_every_ticket_is_settled_once(count, first, spread, budget, seed):
    rng, most = np.random.default_rng(seed), first + spread
    curriculum = probing(f"first={first},most={most}")
    draw = curriculum.select(count, step=0)
    rewards_PG = np.where(rng.random((count, first)) < 0.1, np.nan, rng.integers(0, 2, (count, first)))
    further_P = curriculum.more(draw.tickets, rewards_PG, rollouts=budget)
    differs_P = np.array([len(set(row[~np.isnan(row)])) > 1 for row in rewards_PG])
    assert further_P.sum() == min(budget, spread * differs_P.sum())
    assert not further_P[~differs_P].any()
    assert further_P.max() <= spread
    assert np.ptp(further_P[differs_P]) <= 1 if differs_P.any() else True
    ends_P = rng.permutation(count)
    for row in ends_P:
        curriculum.observe(draw.tickets[row], [[*rewards_PG[row], *rng.integers(0, 2, further_P[row])]])
    metrics = curriculum.metrics()
    assert (metrics["observed"] + metrics["dropped"], metrics["in_flight"]) == (count, 0)


@pytest.mark.parametrize("size", [3, 6, 8])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.5])
def test_the_gradient_of_a_prompt_is_that_of_the_probe_and_more_in_proportion_to_its_variance(size, p):
    """Over all 0/1 rewards, in units of the policy gradient: a success adds A/p, a failure takes A/(1-p)."""
    curriculum = probing(f"first=2,most={size}", advantage="leave-one-out")
    total, q = 0.0, 1 - p
    for outcome in np.ndindex(*[2] * size):
        tickets = curriculum.select(1, step=0).tickets
        further = int(curriculum.more(tickets, [outcome[:2]], rollouts=size - 2)[0])
        rewards = np.array(outcome[: 2 + further], float)
        (advantages_G,) = curriculum.observe(tickets, [rewards]).advantages
        chance = np.prod([p if right else q for right in outcome])
        total += chance * (advantages_G * np.where(rewards == 1, 1 / p, -1 / q)).sum()
    assert total == pytest.approx(2 + 2 * (size - 2) * (size - 3) * p * q / (size - 1))

"""Shrinkage baselines, worked by hand from the authors' formulas; saved, and taken back on an error."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum, RewardError
from curro.contrib.shrinkage import Shrinkage
from curro.core import registry
from curro.core.groups import Groups, moments
from curro.methods.advantage.leave_one_out import LeaveOneOut

ROWS = [{"prompt": f"p{i}", "key": f"k{i}"} for i in range(6)]


def made(groups, prompts=6):
    return Curriculum("uniform", prompts, advantage=f"shrinkage:groups={groups}", seed=0)


def groups_of(rewards):
    """Groups of distinct prompts, all drawn at step 0."""
    scored, zeros = np.ones(rewards.shape, bool), np.zeros(len(rewards), int)
    return Groups(np.arange(len(rewards)), zeros, rewards, scored, *moments(rewards, scored))


def credit(curriculum, rewards, step=0):
    tickets = curriculum.select(len(rewards), step=step).tickets
    return curriculum.observe(tickets, rewards).advantages


def test_two_rollouts_each_by_hand():
    """Of the second prompt the others have means .5 and 0 and variances .5 and 0, so over n .25 and 0.

    mu = .25, v = .125, s = .0625, lambda = 2/3: A = 2/3 (1 - .25). Of the first, v is 0: leave-one-out. Of
    the third the means are .5 and 1: A = 2/3 (0 - .75).
    """
    expected = [[1, -1], [0.5, 0.5], [-0.5, -0.5]]
    np.testing.assert_allclose(credit(made(0), [[1, 0], [1, 1], [0, 0]]), expected, rtol=1e-12)


def test_groups_of_several_sizes_and_what_was_not_scored():
    """Of the first, the others: mean 2, u 4, n 2, so v 2; and mean 1, u 0. v = 1, mu = 1.5, s = .25.

    lambda = .8; its own are 3 and 0 and 0, without each the means are 0, 1.5 and 1.5. The group of one
    scored rollout has no variance: it gets 0 and counts for nobody.
    """
    nan = np.nan
    rewards = [[3, 0, 0, nan], [2 + 2**0.5, nan, 2 - 2**0.5, nan], [1, 1, 1, 1], [7, nan, nan, nan]]
    found = credit(made(0), rewards)
    baseline = 0.2 * np.array([0, 1.5, 1.5]) + 0.8 * 1.5
    np.testing.assert_allclose(found[0], [*(np.array([3, 0, 0]) - baseline), 0], rtol=1e-9)
    assert not found[3].any()
    assert found[1, 1] == 0


def test_with_fewer_than_two_others_it_is_leave_one_out():
    rewards = [[1, 0, 0, 0], [1, 1, 1, 0]]
    plain = Curriculum("uniform", 6, advantage="leave-one-out", seed=0)
    np.testing.assert_array_equal(credit(made(0), rewards), credit(plain, rewards))


def test_earlier_groups_of_other_prompts_count_where_a_call_has_too_few():
    """Groups come one by one, and each is compared with the two before it."""
    curriculum = made(3, prompts=4)
    draw = curriculum.select(4, step=0)
    for ticket, rewards in zip(draw.tickets[:3], [[1, 1], [1, 0], [0, 0]], strict=True):
        last = curriculum.observe([ticket], [rewards]).advantages
    # of the third: means 1 and .5, variances over n 0 and .25: v = .125, s = .0625, mu = .75
    np.testing.assert_allclose(last, [[-0.5, -0.5]], rtol=1e-12)
    # of the fourth: means .5 and 0, v and s as before, mu = .25: a third of (1, -1) and two of (.75, -.25)
    fourth = curriculum.observe(draw.tickets[3:], [[1, 0]]).advantages
    np.testing.assert_allclose(fourth, [[5 / 6, -1 / 2]], rtol=1e-12)


def test_a_call_is_compared_with_as_many_groups_as_the_option_says_and_no_fewer():
    """Of seven groups two come in the call itself, and the five before them are kept for it."""
    curriculum = made(7, prompts=40)
    for step in range(6):
        draw = curriculum.select(2, step=step)
        curriculum.observe(draw.tickets, [[1, 0], [1, 1]])
        assert curriculum.advantage.recent_3K.shape[1] == min(2 * (step + 1), 7)
    assert curriculum.advantage.recent_3K[1].tolist() == [1, 0.5, 1, 0.5, 1, 0.5, 1]


def test_its_own_prompt_counts_for_no_group():
    curriculum = Curriculum("uniform", 1, advantage="shrinkage", seed=0)
    for step in range(4):
        found = credit(curriculum, [[1, 0, 0, 0]], step)
    np.testing.assert_allclose(found, [[1, -1 / 3, -1 / 3, -1 / 3]])


def test_the_baseline_is_unbiased_and_varies_less_than_leave_one_out():
    """The baseline is p less the error; with pairs of rollouts a fourth of the square error is left here."""
    rng = np.random.default_rng(0)
    rates, errors = rng.uniform(0.3, 0.5, 16), {}
    rewards = 1.0 * (rng.random((200, 16, 2)) < rates[:, None])
    for estimator in (Shrinkage(groups=0), LeaveOneOut()):
        found = [estimator(groups_of(one)) - (one - rates[:, None]) for one in rewards]
        errors[type(estimator)] = np.mean(found), np.mean(np.square(found))
    assert abs(errors[Shrinkage][0]) < 0.03
    assert errors[Shrinkage][1] < 0.4 * errors[LeaveOneOut][1]


def test_a_resume_and_an_error_leave_the_groups_that_it_remembers():
    whole, resumed = (Curriculum("uniform", ROWS, advantage="shrinkage", seed=0) for _ in range(2))
    for curriculum in (whole, resumed):
        credit(curriculum, [[1, 0], [1, 1], [0, 0]])
    state = whole.state_dict()
    with pytest.raises(RewardError):
        whole.observe(whole.select(1, step=1).tickets, [[np.inf, 0]])
    np.testing.assert_equal(whole.state_dict()["advantage"], state["advantage"])
    again = Curriculum("uniform", ROWS, advantage="shrinkage", seed=0)
    again.load_state_dict(resumed.state_dict())
    rewards = [[1, 0], [0, 0]]
    np.testing.assert_array_equal(credit(again, rewards, 1), credit(resumed, rewards, 1))


def test_a_negative_number_of_groups_is_refused():
    with pytest.raises(ConfigError, match="groups is a number from 0"):
        registry.build("advantage", "shrinkage:groups=-1")

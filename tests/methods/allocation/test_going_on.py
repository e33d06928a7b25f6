"""Groups that stop or go on: who goes on, and what that makes of the gradient."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from curro import ConfigError, Curriculum, RewardError, TicketError


def test_screen_by_hand():
    curriculum = Curriculum("uniform", 5, allocation="screen:first=2,total=6")
    draw = curriculum.select(4, step=0)
    assert draw.rollouts.tolist() == [2] * 4
    before = curriculum.metrics()
    rewards = [[0, 0], [1, 0], [1, 1], [1, np.nan]]
    assert curriculum.more(draw.tickets, rewards).tolist() == [0, 4, 0, 0]
    np.testing.assert_equal(curriculum.metrics(), before)
    # a rollout that failed is asked for again
    assert curriculum.more(draw.tickets[1], [[1, 0, np.nan, 0, 0, 0]]).tolist() == [1]
    assert curriculum.more(draw.tickets[1], [[1, 0, 0, 0, 0, 0]]).tolist() == [0]
    # but not without end: there are 12 at most
    assert curriculum.more(draw.tickets[1], [[1, 0, *[np.nan] * 6]]).tolist() == [4]
    assert curriculum.more(draw.tickets[1], [[1, 0, *[np.nan] * 9]]).tolist() == [1]
    assert curriculum.more(draw.tickets[1], [[1, 0, *[np.nan] * 10]]).tolist() == [0]
    curriculum.observe(draw.tickets[1], [[1, 0, 0, 0, 0, 0]])
    with pytest.raises(TicketError, match="settled before"):
        curriculum.more(draw.tickets[1], [[1, 0]])
    with pytest.raises(RewardError):
        curriculum.more(draw.tickets[0], [[np.inf, 0]])


def test_until_by_hand():
    def more(end, rewards):
        curriculum = Curriculum(
            "uniform", 1, allocation=f"until:each=4,rounds=3,end={end},keep=none", reward_range=(-1, 1)
        )
        draw = curriculum.select(1, step=0)
        assert draw.rollouts.tolist() == [4]
        return int(curriculum.more(draw.tickets, [rewards])[0])

    wrong, right = -1.0, 1.0
    assert more("success", [wrong] * 4) == 4
    assert more("success", [wrong] * 3 + [right]) == 0
    assert more("success", [wrong] * 12) == 0
    assert more("balanced", [right] * 4) == 4
    assert more("balanced", [wrong] * 3 + [right]) == 4
    assert more("balanced", [wrong] * 2 + [right] * 2) == 0
    assert more("balanced", [wrong] * 10) == 2
    # rollouts without a reward count, wherever they are
    assert more("balanced", [wrong, np.nan, np.nan, wrong] * 3) == 0
    assert more("balanced", [wrong, np.nan, np.nan, wrong] * 2) == 4
    assert more("balanced", [wrong] * 10 + [np.nan] * 2) == 0
    assert more("balanced", [wrong] * 4 + [np.nan] * 4) == 4


def test_estimates_by_hand():
    """ADCL's estimates have 4 rollouts (table 5 of METIS), what is trained on has 8."""
    curriculum = Curriculum("adcl:chunks=2", 4, allocation="estimates")
    draw = curriculum.select(4, step=0)
    assert draw.rollouts.tolist() == [4] * 4
    rewards = np.arange(4) < draw.prompts[:, None]
    assert curriculum.more(draw.tickets, rewards).tolist() == [0] * 4
    assert not curriculum.observe(draw.tickets, rewards).admitted.any()
    draw = curriculum.select(4, step=1)  # the easy chunk, then the estimates of the other one
    assert draw.prompts.tolist() in ([3, 2, 0, 1], [3, 2, 1, 0])
    assert draw.rollouts.tolist() == [8, 8, 4, 4]
    assert Curriculum("uniform", 4, allocation="estimates:train=6").select(2, step=0).rollouts.tolist() == [
        6,
        6,
    ]


@pytest.mark.parametrize(
    "spec",
    [
        "screen:first=1",
        "screen:first=8,total=4",
        "until:each=1",
        "until:rounds=0",
        "until:end=never",
        "until:keep=1",
        "pods:keep=1",
        "pods:total=4,keep=5",
        "pods:baseline=none",
        "estimates:estimate=0",
        "estimates:estimate=5,train=4",
    ],
)
def test_options_that_are_none(spec):
    with pytest.raises(ConfigError):
        Curriculum("uniform", 3, allocation=spec)


def test_others_never_go_on_and_these_take_no_budget():
    curriculum = Curriculum("uniform", 3)
    assert curriculum.more(curriculum.select(1, step=0).tickets, [[1, 0]]).tolist() == [0]
    with pytest.raises(ConfigError, match="the allocation screen divides no budget: leave `rollouts` out"):
        Curriculum("uniform", 3, allocation="screen").select(1, step=0, rollouts=8)


def rho(spec, p, advantage="leave-one-out", per="group"):
    """The mean gradient of a prompt over the policy gradient, over all sequences of 0/1 rewards.

    The gradient of a group is the mean over the rollouts that are trained on. `per="group"` is its mean over
    groups; `per="rollout"` is the mean over the rollouts of all groups, of which larger ones have more. A
    success adds its advantage over p to it,
    in units of the policy gradient, and a failure takes its advantage over 1 - p from it.
    """
    curriculum = Curriculum("uniform", 1, allocation=spec, advantage=advantage)

    @functools.cache
    def end(right, count):
        """What the group does after these rewards: further rollouts, or its gradient."""
        rewards = [[1] * right + [0] * (count - right)]
        ticket = curriculum.select(1, step=0).tickets
        again = int(curriculum.more(ticket, rewards)[0])
        verdict = curriculum.observe(ticket, rewards)
        kept_G, slope_G = verdict.kept[0], np.where(np.array(rewards[0]) == 1, 1 / p, -1 / (1 - p))
        total, size = (verdict.advantages[0] * slope_G)[kept_G].sum(), kept_G.sum()
        return again, np.array([total / size, total, size])

    @functools.cache
    def follow(right, count, wanted):
        if wanted:
            better = follow(right + 1, count + 1, wanted - 1)
            return p * better + (1 - p) * follow(right, count + 1, wanted - 1)
        again, gradient = end(right, count)
        return follow(right, count, again) if again else gradient

    of_group, total, size = follow(0, 0, curriculum.allocation.first)
    return of_group if per == "group" else total / size


def test_the_rollouts_that_are_trained_on_by_hand():
    curriculum = Curriculum("uniform", 4, allocation="until:each=2,keep=4", advantage="group")
    draw = curriculum.select(3, step=0)
    rewards = [[0, 0, 1, 0, 0, 1], [1, 1, 0, 1, 1, 1], [np.nan, 0, 0, 1, 0, 0]]
    verdict = curriculum.observe(draw.tickets, rewards)
    expected = [[1, 1, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0]]
    assert verdict.kept.astype(int).tolist() == expected
    # the baselines are of all scored rollouts: 1/3, 5/6 and 1/5
    np.testing.assert_allclose(verdict.advantages[0], [-1 / 3, -1 / 3, 2 / 3, 0, 0, 2 / 3])
    np.testing.assert_allclose(verdict.advantages[2], [0, -0.2, -0.2, 0.8, -0.2, 0])
    assert Curriculum("uniform", 4, allocation="until").allocation.keep == 8


def test_rho_by_hand():
    assert rho("screen:first=4,total=4", 0.3) == pytest.approx(1)
    # screen 2, then 3 where they differ (probability 2pq): S^2 = 1/3 for 2 to 1, whatever the third is
    assert rho("screen:first=2,total=3", 0.3) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("screen:first=4,total=8", [0.53, 0.65, 0.84, 0.90]),
        ("until", [3.93, 3.27, 1.45, 1.09]),
        ("until:end=success", [3.19, 1.70, 1.06, 1.00]),
        ("until:each=4,rounds=4,keep=none", [1.08, 1.22, 1.17, 1.12]),
        ("until:each=4,rounds=4,end=success,keep=none", [1.95, 1.58, 1.18, 1.05]),
    ],
)
def test_rho_as_the_page_has_it(spec, expected):
    assert [round(rho(spec, p), 2) for p in (0.02, 0.1, 0.3, 0.5)] == pytest.approx(expected, abs=0.006)


def test_rho_per_rollout_by_hand():
    # 2 rollouts, and a third where they differ, which has the probability 2pq. The gradient of such a group
    # sums up to 3 S^2 / (pq) = 1 / (pq), and others have none: 2 on average, over 2 + 2pq rollouts
    assert rho("screen:first=2,total=3", 0.3, per="rollout") == pytest.approx(2 / (2 + 2 * 0.3 * 0.7))
    assert rho("screen:first=4,total=4", 0.3, per="rollout") == pytest.approx(1)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("screen:first=4,total=8", [0.99, 0.97, 0.96, 0.96]),
        ("until", [3.93, 3.27, 1.45, 1.09]),
        ("until:end=success", [3.19, 1.70, 1.06, 1.00]),
        ("until:each=4,rounds=4,keep=none", [0.99, 0.99, 1.04, 1.06]),
        ("until:each=4,rounds=4,end=success,keep=none", [1.01, 1.04, 1.06, 1.04]),
    ],
)
def test_rho_per_rollout_as_the_page_has_it(spec, expected):
    found = [round(rho(spec, p, per="rollout"), 2) for p in (0.02, 0.1, 0.3, 0.5)]
    assert found == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(
    "spec",
    ["screen:first=2,total=6", "until:each=2,rounds=4,end=success,keep=none", "until:each=4,rounds=3,keep=4"],
)
def test_the_mean_of_the_advantages_times_scores_is_rho_times_the_policy_gradient(spec):
    """A policy of three answers, the first of them right; gradients with respect to its three logits."""
    policy = np.array([0.25, 0.35, 0.4])
    expected = rho(spec, 0.25) * policy[0] * (np.eye(3)[0] - policy)
    rng, total, squares, groups = np.random.default_rng(0), np.zeros(3), np.zeros(3), 6000
    curriculum = Curriculum("uniform", 1, allocation=spec, advantage="leave-one-out")
    for step in range(groups):
        draw = curriculum.select(1, step=step)
        answers = rng.choice(3, draw.rollouts[0], p=policy)
        while wanted := int(curriculum.more(draw.tickets, [answers == 0])[0]):
            answers = np.append(answers, rng.choice(3, wanted, p=policy))
        verdict = curriculum.observe(draw.tickets, [answers == 0])
        gradient = verdict.advantages[0] @ (np.eye(3)[answers] - policy) / verdict.kept.sum()
        total += gradient
        squares += gradient**2
    mean = total / groups
    error = np.sqrt((squares / groups - mean**2) / groups)
    assert (np.abs(mean - expected) < 4 * error).all()
    assert (
        np.abs(mean - policy[0] * (np.eye(3)[0] - policy)).max() > 4 * error.max()
    )  # not the gradient itself

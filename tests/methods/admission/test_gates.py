"""Admission gates, on groups worked by hand."""

import numpy as np
import pytest

from curro import ConfigError, Curriculum, Gate, RewardError


def admitted(spec, rewards, reward_range=(0, 1), **reported):
    curriculum = Curriculum("uniform", len(rewards), admission=spec, reward_range=reward_range)
    verdict = curriculum.observe(curriculum.select(len(rewards), step=0).tickets, rewards, **reported)
    assert curriculum.metrics()["admitted"] == verdict.admitted.sum()
    assert curriculum.metrics()["selected"] == len(rewards)
    return verdict.admitted.tolist()


def rates(*successes, of=10):
    """Groups with so many rewards of 1."""
    return [[1.0] * k + [0.0] * (of - k) for k in successes]


@pytest.mark.parametrize(
    ("spec", "inside"),
    [
        ("band:0,1", {1, 2, 3, 4, 5, 6, 7, 8, 9}),
        ("band:0.1,0.9", {2, 3, 4, 5, 6, 7, 8}),
        ("band:0.2,0.8", {3, 4, 5, 6, 7}),
        ("band:0.3,0.7", {4, 5, 6}),
        ("band:0.4,0.6", {5}),
        ("band:0.3,0.7,both", {3, 4, 5, 6, 7}),
        ("band:0,1,high", set(range(1, 11))),  # table 1: 0 < p <= 1
        ("band:0.2,1,high", set(range(3, 11))),
        ("band:0,0.6,low", set(range(6))),  # 0 <= p < 0.6
        ("band:0,1,low", set(range(10))),
        ("band:0,1,both", set(range(11))),
        ("band:0.5,0.5,both", {5}),
        ("signal", set(range(1, 10))),
        ("signal:0.1", set(range(2, 9))),
        ("variance:0.09", set(range(1, 10))),  # p(1-p) is 0.09 at 1/10 and 9/10
        ("variance:0.1", set(range(2, 9))),
        ("variance:0,0.16", {0, 1, 2, 8, 9, 10}),  # 0.16 at 2/10 and 8/10
        ("everything", set(range(11))),
    ],
)
def test_table_1_of_the_paper_and_its_kin(spec, inside):
    assert admitted(spec, rates(*range(11))) == [k in inside for k in range(11)]


def test_rewards_in_single_precision_are_at_the_ends():
    """As hosts give them: 0.3 is 0.30000001 there, and 0.8 is 0.80000001."""
    rewards = np.array([[0.2, 0.4], [0.8, 0.8]], np.float32).astype(np.float64)
    assert admitted("band:0.3,0.9", rewards) == [False, True]
    assert admitted("band:0.3,0.8,both", rewards) == [True, True]


def test_a_band_is_on_the_reward_range():
    # -1 and 1 are failure and success: a mean of 0 is a rate of 1/2
    rewards = [[1, 1, -1, -1], [1, -1, -1, -1], [1, 1, 1, 1]]
    assert admitted("band:0.3,0.7", rewards, (-1, 1)) == [True, False, False]
    # variances 1 and 3/4 in a range of 2: 1/4 and 3/16
    assert admitted("variance:0.2", rewards, (-1, 1)) == [True, False, False]


def test_what_was_not_scored_does_not_count():
    nan = float("nan")
    rewards = [[1, 0, np.nan, np.nan], [np.nan] * 4]
    assert admitted("band:0.4,0.6", rewards) == [True, False]
    curriculum = Curriculum("uniform", 2, admission="band:0.4,0.6", signal="accuracy")
    tickets = curriculum.select(2, step=0).tickets
    named = {"accuracy": [[1, 0, nan, nan], [nan, nan, nan, nan]]}
    assert curriculum.observe(tickets, rewards, named=named).admitted.tolist() == [True, False]


def test_a_missing_named_reward_settles_nothing():
    curriculum = Curriculum("uniform", 2, admission="band:0,1", signal="accuracy", advantage="group")
    tickets = curriculum.select(1, step=0).tickets
    with pytest.raises(RewardError, match="no reward named 'accuracy'; they carry: format"):
        curriculum.observe(tickets, [[1, 0]], named={"format": [[1, 0]]})
    with pytest.raises(RewardError, match="has the accuracy inf"):
        curriculum.observe(tickets, [[1, 0]], named={"accuracy": [[np.inf, 0]]})
    with pytest.raises(RewardError, match=r"'accuracy' has shape \(3,\), rewards have \(1, 2\)"):
        curriculum.observe(tickets, [[1, 0]], named={"accuracy": [1, 0, 0]})
    assert len(curriculum.ledger) == 1
    assert curriculum.observe(tickets, [[1, 0]], named={"accuracy": [[1, 0]]}).admitted.all()


def test_a_gate_of_the_users_own_is_one():
    with pytest.raises(ConfigError, match=r"not a curro\.Gate"):
        Curriculum("uniform", 2, admission="curro.methods.selection.uniform:Uniform")

    class Nothing(Gate):
        def __call__(self, groups):
            return np.zeros(len(groups.prompts), bool)

    assert admitted(Nothing(), rates(5, of=10)) == [False]

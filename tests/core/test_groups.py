"""Mean and variance of groups, alone and in any batch; and the order in which groups are learnt from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from curro.core.errors import CheckpointError, RewardError
from curro.core.groups import Feedback, UnlearnedGroups, moments, read_groups
from curro.core.prompts import PromptTable

SHAPES = st.tuples(st.integers(0, 6), st.integers(1, 20))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), shape=SHAPES)
def test_moments_are_those_of_the_scored_rewards(data, shape):
    rewards = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-1e6, 1e6)))
    scored = data.draw(hnp.arrays(np.bool_, shape))
    mean, variance = moments(rewards, scored)
    for p in range(shape[0]):
        kept = rewards[p, scored[p]]
        assert mean[p] == pytest.approx(kept.mean() if len(kept) else 0.0, rel=1e-12, abs=1e-6)
        assert variance[p] == pytest.approx(kept.var() if len(kept) else 0.0, rel=1e-9, abs=1e-9)
        alone = moments(rewards[p : p + 1], scored[p : p + 1])
        assert (mean[p], variance[p]) == (alone[0][0], alone[1][0])
        if len(set(kept)) == 1:
            assert (mean[p], variance[p]) == (kept[0], 0.0)


def read(rewards, **named):
    prompts = np.arange(len(rewards))
    return read_groups(PromptTable(9), prompts, prompts, Feedback.read(prompts, rewards, named))


def test_counts_and_centred_rewards():
    groups = read([[3.0, np.nan, 1.0], [np.nan] * 3])
    assert groups.count.tolist() == [2, 0]
    assert groups.centred().tolist() == [[1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]
    assert read([[1.0, 2.0]]).count.tolist() == [2]


def test_a_host_may_reuse_its_array():
    rewards = np.ones((1, 2))
    groups = read(rewards)
    rewards[:] = 7.0
    assert groups.rewards.tolist() == [[1.0, 1.0]]


def test_a_taken_group_keeps_all_it_has():
    groups = read([[0.0, 1.0], [1.0, 1.0]], format=[[0.5, np.nan], [0.0, 1.0]])
    assert groups.count.tolist() == [2, 2]
    taken = groups.take(np.array([1]))
    assert taken.rewards.tolist() == [[1.0, 1.0]]
    assert taken.named["format"].tolist() == [[0.0, 1.0]]
    assert taken.count.tolist() == [2]


@pytest.mark.parametrize(
    "rows", [1, (1,), np.array(1), [1], [False, True], range(1, 2), slice(1, 2)], ids=repr
)
def test_rows_are_taken_by_all_that_names_them(rows):
    taken = read([[0.0, 1.0], [1.0, 1.0]], format=[[0.5, np.nan], [0.0, 1.0]]).take(rows)
    assert (taken.rewards.tolist(), taken.prompts.shape) == ([[1.0, 1.0]], (1,))
    assert taken.named["format"].tolist() == [[0.0, 1.0]]
    assert taken.take(()).rewards.shape == (0, 2)


def test_what_is_masked_was_not_scored():
    assert read(np.ma.array([[0, 1], [1, 1]], mask=[[0, 0], [0, 1]])).scored.tolist() == [
        [True] * 2,
        [True, False],
    ]


BEYOND = r"rollout 1 of prompt '1' has the format .*at most 1e\+15"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        *((part, "the named reward 'format' has shape") for part in ([1.0, 0.0], 1.0, [[1.0], [0.0]])),
        ("high", "the named reward 'format' is not a number"),
        *(([[0.0, np.nan], [0.0, wrong]], BEYOND) for wrong in (np.inf, -np.inf, 2e15)),
    ],
)
def test_a_named_reward_is_a_number_a_rollout(part, words):
    with pytest.raises(RewardError, match=words):
        read(np.zeros((2, 2)), format=part)
    with pytest.raises(RewardError, match="`named` is the parts"):
        Feedback.read([0], [[1.0]], named=5)


@pytest.mark.parametrize("missing", [np.nan, None])
def test_what_was_not_scored_is_nan(missing):
    groups = read([[missing, 1.0], [missing, 0.0]])
    assert groups.scored.tolist() == [[False, True], [False, True]]
    assert groups.rewards.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert groups.mean.tolist() == [1.0, 0.0]


def unlearned(groups):
    queue = UnlearnedGroups(len(groups), np.inf)
    queue.add(*groups)
    return queue


def test_groups_are_in_order_of_their_prompts():
    groups = np.array([[7, 2, 9, 0], [0.25, 0.5, 0.75, 1.0]])
    assert unlearned(groups).take().tolist() == [[0, 2, 7, 9], [1.0, 0.5, 0.25, 0.75]]
    # where a prompt stands twice, the rows after it decide
    groups = np.array([[7, 2, 7, 7], [1, 0, 1, 0], [0.75, 0.5, 0.25, 1.0]])
    assert unlearned(groups).take().tolist() == [[2, 7, 7, 7], [0, 0, 1, 1], [0.5, 1.0, 0.25, 0.75]]


def test_groups_are_learnt_once():
    queue = unlearned(np.array([[7, 2], [0.25, 0.5]]))
    queue.add(np.array([4]), np.array([0.75]))
    assert queue.in_order().tolist() == queue.take().tolist() == [[2, 4, 7], [0.5, 0.75, 0.25]]
    assert len(queue) == 0
    assert queue.take().shape == (2, 0)


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (np.zeros((3, 1)), "is not of any run"),
        (np.zeros(2), "is not of any run"),
        (np.array([[0], [np.nan]]), "is not of any run"),
        (np.array([[4], [0.5]]), "are not of the table"),
        (np.array([[0.5], [0.5]]), "are not of the table"),
    ],
)
def test_saved_groups_that_are_damaged(groups, problem):
    with pytest.raises(CheckpointError, match=f"unlearned {problem}"):
        UnlearnedGroups(2, 4).load_state_dict(groups)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.floats(0, 1)), max_size=30).flatmap(
        lambda groups: st.tuples(st.just(groups), st.permutations(groups))
    )
)
def test_the_order_in_which_groups_came_in_does_not_matter(both):
    one, other = (np.array(groups, np.float64).reshape(-1, 3).T for groups in both)
    np.testing.assert_array_equal(unlearned(one).in_order(), unlearned(other).in_order())

"""The sum tree against cumulative sums."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curro.methods.index import SumTree

ALPHA = 1e-4  # a right sampler fails such a test for one seed in ten thousand; the seeds here are fixed
LAST = 1.0 - 2.0**-53  # the largest uniform there is

SIZES = st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 100, 513])
WHOLE = st.integers(0, 2**20).map(float)
WIDE = st.one_of(st.just(0.0), st.floats(-300, 300).map(lambda exponent: 10.0**exponent))


def inverse(weights, uniforms):
    """Exact for whole weights: the id whose stretch of the cumulative sum holds the mass."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative, np.asarray(uniforms) * cumulative[-1], side="right")


@settings(max_examples=100, deadline=None)
@given(data=st.data(), size=SIZES)
def test_updates_and_draws_are_those_of_a_cumulative_sum(data, size):
    tree, weights = SumTree(size), np.zeros(size)
    for _ in range(4):
        ids = data.draw(st.lists(st.integers(0, size - 1), max_size=30))
        given_weights = data.draw(st.lists(WHOLE, min_size=len(ids), max_size=len(ids)))
        tree.update(ids, given_weights)
        for i, weight in zip(ids, given_weights, strict=True):
            weights[i] = weight
        assert tree.total == weights.sum()
        assert (tree.weights(np.arange(size)) == weights).all()
        if tree.total:
            uniforms = np.array(data.draw(st.lists(st.integers(0, 2**20 - 1), max_size=20))) / 2**20
            ids, probabilities = tree.sample(uniforms)
            assert ids.tolist() == inverse(weights, uniforms).tolist()
            assert (probabilities == weights[ids] / weights.sum()).all()


@settings(max_examples=100, deadline=None)
@given(data=st.data(), size=SIZES)
def test_no_draw_has_weight_0_however_far_weights_are_apart(data, size):
    weights = np.array(data.draw(st.lists(WIDE, min_size=size, max_size=size)))
    tree = SumTree.from_array(weights)
    uniforms = [0.0, 5e-324, LAST, *data.draw(st.lists(st.floats(0, LAST), max_size=20))]
    if not weights.any():
        with pytest.raises(ValueError, match="every weight is 0"):
            tree.sample(uniforms)
        return
    ids, probabilities = tree.sample(uniforms)
    assert (weights[ids] > 0).all()
    assert (probabilities == weights[ids] / tree.total).all()
    assert tree.state_dict()["weights"].tolist() == weights.tolist()
    assert tree.total == SumTree.from_array(weights).total


@settings(max_examples=50, deadline=None)
@given(data=st.data(), size=SIZES)
def test_a_batch_is_its_parts(data, size):
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=60))
    weights = data.draw(st.lists(WIDE, min_size=len(ids), max_size=len(ids)))
    at_once, one_by_one = SumTree(size), SumTree(size)
    at_once.update(ids, weights)
    for i, weight in zip(ids, weights, strict=True):
        one_by_one.update([i], weight)
    final = np.zeros(size)
    final[ids] = weights  # NumPy too keeps the last of repeated ids
    built = SumTree.from_array(final)
    assert at_once.total == one_by_one.total == built.total
    if final.any():
        uniforms = np.random.default_rng(0).random(20)
        expected = built.sample(uniforms)[0].tolist()
        assert at_once.sample(uniforms)[0].tolist() == expected
        assert [one_by_one.sample(uniforms[n : n + 1])[0][0] for n in range(20)] == expected


def test_draws_are_in_proportion():
    rng = np.random.default_rng(1)
    weights = rng.random(300) * (rng.random(300) < 0.7)
    ids, _ = SumTree.from_array(weights).sample(rng.random(200_000))
    counts, positive = np.bincount(ids, minlength=300), weights > 0
    assert counts[~positive].sum() == 0
    expected = weights[positive] / weights.sum() * 200_000
    assert stats.chisquare(counts[positive], expected).pvalue > ALPHA


def test_sums_do_not_drift():
    rng = np.random.default_rng(3)
    tree = SumTree.from_array(rng.random(1000))
    for _ in range(300):
        tree.update(rng.integers(0, 1000, 512), 10.0 ** rng.uniform(-12, 12, 512))
    weights = tree.weights(np.arange(1000))
    assert tree.total == SumTree.from_array(weights).total
    assert tree.total == pytest.approx(math.fsum(weights), rel=1e-14)
    tree.update(np.arange(1000), 0.0)
    assert tree.total == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e-9, 1e308])
def test_a_bad_weight_is_refused_by_id_and_nothing_changes(bad):
    tree = SumTree.from_array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="weight of id 2 is"):
        tree.update([0, 2], [9.0, bad])
    assert tree.total == 6.0
    with pytest.raises(ValueError, match="weight of id 1 is"):
        SumTree.from_array([1.0, bad])


@pytest.mark.parametrize("bad", [1.0, -0.1, np.nan])
def test_a_bad_uniform_or_id_is_refused(bad):
    tree = SumTree.from_array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"uniforms must lie in \[0, 1\); number 1 is"):
        tree.sample([0.5, bad])
    with pytest.raises(IndexError, match=r"id 3 is outside 0\.\.2"):
        tree.update([0, 3], [9.0, 9.0])
    assert tree.total == 6.0


def test_save_and_load():
    rng = np.random.default_rng(4)
    tree = SumTree.from_array(rng.random(77))
    state = tree.state_dict()
    other, uniforms = SumTree(77), rng.random(500)
    other.load_state_dict(state)
    for ours, theirs in zip(tree.sample(uniforms), other.sample(uniforms), strict=True):
        assert (ours == theirs).all()
    tree.update([0], 5.0)
    assert other.state_dict()["weights"].tolist() == state["weights"].tolist()
    with pytest.raises(ValueError, match="the state is of 77 ids"):
        SumTree(78).load_state_dict(state)


def test_golden_sequence():
    tree = SumTree.from_array(np.arange(20.0))
    assert tree.sample([0.0, 0.1, 0.5, LAST])[0].tolist() == [1, 6, 14, 19]


@settings(max_examples=80, deadline=None)
@given(data=st.data(), size=st.integers(2, 100))
def test_what_is_drawn_again_is_what_a_tree_without_the_taken_draws(data, size):
    weights = np.array(data.draw(st.lists(st.floats(0.1, 10.0), min_size=size, max_size=size)))
    taken_ids = np.array(
        data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size // 2)), np.int64
    )
    count = data.draw(st.integers(1, size - len(taken_ids)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    tree, uniforms, taken = SumTree.from_array(weights), rng.random((2, count)), np.zeros(size, np.bool_)
    taken[taken_ids] = True
    first, before = tree.sample(uniforms[0])[0], tree._tree.copy()
    ids, probabilities = tree.sample_free(*uniforms, taken, taken_ids)

    gone, expected = set(taken_ids.tolist()), []
    for i, uniform in zip(first.tolist(), uniforms[1], strict=True):
        if i in gone:
            left = weights.copy()
            left[list(gone)] = 0.0
            i = int(SumTree.from_array(left).sample([uniform])[0][0])
        gone.add(i)
        expected.append(i)
    assert ids.tolist() == expected
    np.testing.assert_allclose(probabilities, weights[expected] / weights.sum(), rtol=1e-12)
    np.testing.assert_array_equal(tree._tree, before)
    assert np.flatnonzero(taken).tolist() == sorted(taken_ids.tolist())

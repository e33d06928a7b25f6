"""The race against exact successive sampling."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curro.methods.index import ExponentialRace

ALPHA = 1e-4  # a right sampler fails such a test for one seed in ten thousand; the seeds here are fixed


def pair_chances(weights):
    total = Fraction(sum(weights))
    return {
        (i, j): float(weights[i] / total * weights[j] / (total - weights[i]))
        for i, j in permutations(range(len(weights)), 2)
    }


def test_winners_that_return_are_drawn_afresh():
    """Pop two, put them back, a hundred thousand times: each pair a successive draw, each independent."""
    weights, trials = [1, 2, 4, 8], 40_000
    race = ExponentialRace(4, seed=1)
    race.update(np.arange(4), weights)
    chances = pair_chances(weights)
    number = {pair: n for n, pair in enumerate(chances)}
    seen = np.empty(trials, dtype=np.int64)
    for trial in range(trials):
        ids = race.pop(2)
        seen[trial] = number[tuple(ids.tolist())]
        race.update(ids, np.take(weights, ids))
    expected = np.array(list(chances.values()))
    assert stats.chisquare(np.bincount(seen, minlength=12), expected * trials).pvalue > ALPHA
    following = np.zeros((12, 12))
    np.add.at(following, (seen[:-1], seen[1:]), 1)
    assert stats.chi2_contingency(following).pvalue > ALPHA


def test_new_weights_count_from_the_next_pop():
    """Ids that did not win and are given another weight are drawn by it."""
    first, rng = np.zeros(3), np.random.default_rng(2)
    race = ExponentialRace(4, seed=2)
    for _ in range(20_000):
        race.update(np.arange(4), rng.random(4) + np.array([0, 0, 0, 50]))
        race.pop(1)
        race.update(np.arange(4), [3, 2, 1, 0])
        first[race.pop(1)[0]] += 1
    assert stats.chisquare(first, np.array([3, 2, 1]) / 6 * 20_000).pvalue > ALPHA


def test_successive_pops_are_one_longer_pop():
    weights = np.random.default_rng(3).random(500)
    a, b = ExponentialRace(500, seed=5), ExponentialRace(500, seed=5)
    a.update(np.arange(500), weights)
    b.update(np.arange(500), weights)
    assert np.concatenate([b.pop(k) for k in (1, 9, 90, 400)]).tolist() == a.pop(500).tolist()


def test_weights_far_above_what_went_before_keep_their_proportion():
    """A clock of 1e-300 is lost beside a time of 1; the race must count its time anew."""
    wins = 0
    for seed in range(2000):
        race = ExponentialRace(6, seed=seed)
        race.update([0, 1, 2, 3], [1.0, 1.0, 1e-300, 1.0])
        race.pop(2)
        race.update([4, 5], [3e300, 1e300])
        ids = race.pop(6)
        assert set(ids[:2].tolist()) == {4, 5}
        assert ids[-1] == 2
        wins += int(ids[0] == 4)
    assert stats.binomtest(wins, 2000, 0.75).pvalue > ALPHA


@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_a_batch_is_its_parts_and_a_save_changes_nothing(data, seed):
    size = data.draw(st.integers(1, 30))
    a, b = ExponentialRace(size, seed=seed), ExponentialRace(size, seed=seed)
    weight = st.sampled_from([0.0, 1e-300, 0.5, 1.0, 1e10, 1e300])
    for _ in range(4):
        ids = data.draw(st.lists(st.integers(0, size - 1), max_size=20))
        weights = data.draw(st.lists(weight, min_size=len(ids), max_size=len(ids)))
        a.update(ids, weights)
        for i, w in zip(ids, weights, strict=True):
            b.update([i], w)
        out = data.draw(st.lists(st.integers(0, size - 1), max_size=3))
        a.discard(out)
        b.discard(out)
        assert len(a) == len(b)
        assert a.ids().tolist() == b.ids().tolist()
        assert not a.contains(out).any()
        k = data.draw(st.integers(0, 3))
        assert a.pop(k).tolist() == b.pop(k).tolist()
        state = b.state_dict()
        b = ExponentialRace(size, seed=seed + 1)
        b.load_state_dict(state)
    assert a.pop(size).tolist() == b.pop(size).tolist()


def test_weight_0_takes_an_id_out():
    race = ExponentialRace(3, seed=0)
    race.update([0, 1, 2], 1.0)
    race.update([1, 1, 2, 2], [0.0, 5.0, 5.0, 0.0])
    assert race.ids().tolist() == [0, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_bad_weight_is_refused_by_id_and_nothing_changes(bad):
    race = ExponentialRace(3, seed=0)
    with pytest.raises(ValueError, match="weight of id 2 is"):
        race.update([0, 2], [1.0, bad])
    assert len(race) == 0


def test_a_state_only_fits_its_own_size():
    with pytest.raises(ValueError, match="the state is of 3 ids, this ExponentialRace is of 4"):
        ExponentialRace(4, seed=0).load_state_dict(ExponentialRace(3, seed=0).state_dict())


def test_golden_sequence():
    race = ExponentialRace(8, seed=42)
    race.update(np.arange(8), np.arange(8.0))
    first = race.pop(4).tolist()
    race.update(first, 9.0)
    assert [first, race.pop(7).tolist()] == [[4, 1, 5, 6], [1, 3, 4, 5, 6, 7, 2]]

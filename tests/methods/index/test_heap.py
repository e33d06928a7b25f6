"""The heap against a dictionary that is sorted at every pop."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scipy import stats

from curro.methods.index import MaxHeap
from curro.methods.index.mixing import GAMMA, salt

ALPHA = 1e-4  # a right sampler fails such a test for one seed in ten thousand; the seeds here are fixed
WORD = 2**64 - 1


def tie(seed: int, i: int, count: int) -> int:
    """The tie-breaker in plain integers: the upper half of SplitMix64 at (id, count)."""
    x = ((i | count << 32) * int(GAMMA) + int(salt(seed, 1))) & WORD
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & WORD
    return (x ^ x >> 31) >> 32


class Model:
    """What a heap means: a dictionary, and a count of pushes."""

    def __init__(self, size: int, seed: int) -> None:
        self.seed, self.held, self.pushes = seed, {}, [0] * size

    def push(self, ids, priorities):
        for i, priority in zip(ids, priorities, strict=True):
            self.held[i] = priority
            self.pushes[i] += 1

    def pop(self, k):
        order = sorted(self.held, key=lambda i: (self.held[i], tie(self.seed, i, self.pushes[i]), i))
        return [i for i in order[::-1][:k] if self.held.pop(i) is not None]


PRIORITIES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.109375, 0.25, np.inf, -1e300, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
)


class HeapMachine(RuleBasedStateMachine):
    @initialize(size=st.sampled_from([1, 2, 3, 7, 16, 61, 200]), seed=st.integers(-5, 2**70))
    def begin(self, size, seed):
        self.size = size
        self.heap, self.model = MaxHeap(size, seed=seed), Model(size, seed)

    def some_ids(self, data):
        return data.draw(st.lists(st.integers(0, self.size - 1), max_size=2 * self.size))

    @rule(data=st.data())
    def push(self, data):
        ids = self.some_ids(data)
        priorities = data.draw(st.lists(PRIORITIES, min_size=len(ids), max_size=len(ids)))
        self.heap.push(ids, priorities)
        self.model.push(ids, priorities)

    @rule(priority=PRIORITIES)
    def push_all(self, priority):
        self.heap.push(np.arange(self.size), priority)
        self.model.push(range(self.size), [priority] * self.size)

    @rule(data=st.data())
    def pop(self, data):
        k = data.draw(st.integers(0, self.size + 1))
        assert self.heap.pop(k).tolist() == self.model.pop(k)

    @rule(uniforms=st.lists(st.floats(0, 1, exclude_max=True), max_size=20))
    def pop_uniform(self, uniforms):
        ids = self.heap.pop_uniform(uniforms).tolist()
        assert len(set(ids)) == len(ids) == min(len(uniforms), len(self.model.held))
        for i in ids:
            del self.model.held[i]

    @rule(data=st.data())
    def discard(self, data):
        ids = self.some_ids(data)
        self.heap.discard(ids)
        for i in ids:
            self.model.held.pop(i, None)

    @rule()
    def save_and_load(self):
        state = self.heap.state_dict()
        self.heap = MaxHeap(self.size, seed=77)
        self.heap.load_state_dict(state)

    @invariant()
    def same(self):
        if hasattr(self, "heap"):
            ids = sorted(self.model.held)
            assert len(self.heap) == len(ids)
            assert self.heap.ids().tolist() == ids
            assert self.heap.priorities(ids).tolist() == [self.model.held[i] for i in ids]


TestHeapMachine = HeapMachine.TestCase
TestHeapMachine.settings = settings(
    max_examples=120, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_batch_is_its_parts_in_any_order(data, seed):
    size = data.draw(st.integers(1, 40))
    ids = data.draw(st.lists(st.integers(0, size - 1), max_size=80))
    priorities = data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=len(ids), max_size=len(ids)))
    at_once, one_by_one, shuffled = (MaxHeap(size, seed=seed) for _ in range(3))
    at_once.push(ids, priorities)
    for i, priority in zip(ids, priorities, strict=True):
        one_by_one.push([i], [priority])
    # order matters among the pushes of one id alone
    for position in sorted(range(len(ids)), key=lambda position: (ids[position], position)):
        shuffled.push([ids[position]], priorities[position])
    expected = at_once.pop(size).tolist()
    assert [one_by_one.pop(1)[0] for _ in expected] == expected
    assert shuffled.pop(size).tolist() == expected


def test_each_tied_id_is_equally_likely_first():
    first = np.zeros(8)
    for seed in range(4000):
        first[MaxHeap.from_array(np.full(8, 0.25), seed=seed).pop(1)[0]] += 1
    assert stats.chisquare(first).pvalue > ALPHA


def test_ties_are_broken_anew_at_each_push():
    heap, order = MaxHeap(5, seed=3), np.zeros((5, 5))
    for _ in range(4000):
        heap.push(np.arange(5), 0.0)
        order[np.arange(5), heap.pop(5)] += 1
    assert stats.chisquare(order.ravel()).pvalue > ALPHA


def test_uniform_draws_are_uniform_and_without_replacement():
    rng, pairs = np.random.default_rng(1), np.zeros((6, 6))
    for _ in range(6000):
        heap = MaxHeap(9, seed=0)
        heap.push([0, 2, 3, 4, 7, 8], rng.random(6))
        first, second = np.searchsorted([0, 2, 3, 4, 7, 8], heap.pop_uniform(rng.random(2)))
        pairs[first, second] += 1
    assert np.trace(pairs) == 0
    assert stats.chisquare(pairs[~np.eye(6, dtype=bool)]).pvalue > ALPHA


@pytest.mark.parametrize("size", [50, 60_000])
def test_uniform_draws_depend_on_membership_alone(size):
    rng = np.random.default_rng(3)
    ids, uniforms = np.sort(rng.choice(size, 40, replace=False)), rng.random(30)
    a, b, c = (MaxHeap(size, seed=seed) for seed in (1, 2, 3))
    a.push(ids, rng.random(40))
    b.push(np.arange(size), rng.random(size))
    b.discard(np.setdiff1d(np.arange(size), ids))
    c.push(ids[::-1], 0.0)
    drawn = a.pop_uniform(uniforms).tolist()
    assert b.pop_uniform(uniforms).tolist() == drawn
    assert [c.pop_uniform(uniforms[n : n + 1])[0] for n in range(30)] == drawn


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_bad_priority_is_refused_by_id_and_nothing_changes(bad):
    heap = MaxHeap.from_array([1.0, 2.0], seed=0)
    with pytest.raises(ValueError, match="priority of id 1 is"):
        heap.push([0, 1], [9.0, bad])
    assert heap.priorities([0, 1]).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="priority of id 2 is"):
        MaxHeap.from_array([1.0, 2.0, bad], seed=0)


def test_bad_ids_are_refused():
    heap = MaxHeap(3, seed=0)
    for bad in (3, -1):
        with pytest.raises(IndexError, match=f"id {bad} is outside 0..2"):
            heap.push([0, bad], [1.0, 1.0])
    with pytest.raises(TypeError, match="ids must be integers"):
        heap.discard([0.5])
    with pytest.raises(ValueError, match="2 ids but priority of shape"):
        heap.push([0, 1], [1.0])
    with pytest.raises(ValueError, match="id 2 is not in the heap"):
        heap.priorities([2])
    with pytest.raises(ValueError, match="uniforms must lie in"):
        heap.pop_uniform([1.0])
    with pytest.raises(ValueError, match="cannot pop -1"):
        heap.pop(-1)
    with pytest.raises(ValueError, match="size must be"):
        MaxHeap(0, seed=0)
    assert len(heap) == 0


def test_a_state_is_a_copy_and_only_fits_its_own_size():
    heap = MaxHeap.from_array(np.arange(5.0), seed=4)
    state = heap.state_dict()
    heap.pop(5)
    heap.load_state_dict(state)
    assert heap.pop(5).tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="the state is of 5 ids"):
        MaxHeap(6, seed=4).load_state_dict(state)
    assert MaxHeap(6, seed=4).state_dict()["pushes"].size == 0


def test_golden_sequence():
    heap = MaxHeap.from_array(np.tile([0.0, 0.25], 6), seed=42)
    assert heap.pop(8).tolist() == [11, 5, 1, 9, 7, 3, 4, 6]
    assert heap.pop_uniform([0.1, 0.9]).tolist() == [8, 0]

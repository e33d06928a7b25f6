"""The store of proportional replay: what leaves uniformly, and how many are left."""

import numpy as np

from curro.selection.published_replay import ProportionalStore


def test_uniform_draws_are_ranks_among_those_left():
    rng = np.random.default_rng(1)
    for _ in range(200):
        size = int(rng.integers(1, 40))
        store = ProportionalStore(np.ones(size))
        out = rng.permutation(size)[: rng.integers(0, size)]
        store._remove(out)
        uniforms = rng.random(rng.integers(0, len(store) + 1))
        present, expected = np.flatnonzero(store.inside).tolist(), []
        for uniform in uniforms:
            expected.append(present.pop(int(uniform * len(present))))
        assert store.pop_uniform(uniforms).tolist() == expected
        assert len(store) == len(present) == store.inside.sum()
        store.push(out[:1], np.ones(len(out[:1])))
        assert len(store) == store.inside.sum()

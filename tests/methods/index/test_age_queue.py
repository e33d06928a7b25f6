"""The queue by age: oldest first, ties fair, next to nothing while empty."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curro.methods.index import AgeQueue


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_oldest_first(data):
    size = data.draw(st.integers(1, 50))
    queue, model = AgeQueue(size, seed=0), {}
    for _ in range(5):
        ids = data.draw(st.lists(st.integers(0, size - 1), max_size=30))
        stamp = st.one_of(st.integers(-3, 3), st.integers(-(2**53), 2**53))
        stamps = data.draw(st.lists(stamp, min_size=len(ids), max_size=len(ids)))
        queue.push(ids, np.array(stamps, dtype=np.int64))
        model.update(zip(ids, stamps, strict=True))
        out = data.draw(st.lists(st.integers(0, size - 1), max_size=3))
        queue.discard(out)
        for i in out:
            model.pop(i, None)
        assert queue.ids().tolist() == sorted(model)
        assert queue.stamps(sorted(model)).tolist() == [model[i] for i in sorted(model)]
        saved = queue.state_dict()
        queue = AgeQueue(size, seed=9)
        queue.load_state_dict(saved)
        popped = queue.pop(data.draw(st.integers(0, 4))).tolist()
        ages = [model.pop(i) for i in popped]
        assert ages == sorted(ages)
        assert not model or not ages or max(ages) <= min(model.values())
        assert len(queue) == len(model)
        assert not queue.contains(popped).any()


def test_ids_of_one_stamp_are_equally_likely_first():
    first = np.zeros(6)
    for seed in range(3000):
        queue = AgeQueue(6, seed=seed)
        queue.push(np.arange(6), 17)
        first[queue.pop(1)[0]] += 1
    assert stats.chisquare(first).pvalue > 1e-4  # a right sampler fails for one set of seeds in ten thousand


EMPTY_QUEUES = """
from pathlib import Path
from curro.methods.index import AgeQueue

def peak_kib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

compiled = AgeQueue(5, seed=0)
compiled.pop(5), compiled.contains([3])
before = peak_kib()
queues = [AgeQueue(100_000_000, seed=seed) for seed in range(2)]
for queue in queues:
    assert len(queue.pop(5)) == 0
    assert not queue.contains([3, 99_999_999]).any()
print(peak_kib() - before)
"""


def test_an_empty_queue_takes_next_to_no_memory():
    """In a process of its own: in memory that was freed before, an array of zeros may be cleared."""
    run = subprocess.run([sys.executable, "-c", EMPTY_QUEUES], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 50_000  # KiB


def test_bad_stamps_are_refused():
    queue = AgeQueue(4, seed=0)
    with pytest.raises(TypeError, match="stamps must be integers"):
        queue.push([1], [0.5])
    with pytest.raises(ValueError, match="stamp of id 3 is beyond"):
        queue.push([1, 3], [0, 2**53 + 1])
    with pytest.raises(ValueError, match="the state is of 4 ids, this AgeQueue is of 5"):
        AgeQueue(5, seed=0).load_state_dict(queue.state_dict())
    assert len(queue) == 0

"""The latest rows of a matrix that grows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curro.prediction.frontier import LatestRows


def test_the_latest_three_by_hand():
    latest = LatestRows(3, 2)
    latest.add(np.array([[1.0, 2], [3, 4]]))
    assert latest.rows.tolist() == [[1, 2], [3, 4]]
    latest.add(np.array([[5.0, 6], [7, 8]]))
    assert latest.rows.tolist() == [[3, 4], [5, 6], [7, 8]]


@given(most=st.integers(1, 5), sizes=st.lists(st.integers(0, 8), max_size=12))
def test_they_are_the_end_of_all_that_was_added(most, sizes):
    latest, everything = LatestRows(most, 2), np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    done = 0
    for size in sizes:
        latest.add(everything[done : done + size])
        done += size
        np.testing.assert_array_equal(latest.rows, everything[:done][-most:])

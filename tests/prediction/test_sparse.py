"""Rows of which few elements are not 0."""

import numpy as np

from curro.prediction.sparse import SparseRows


def rows(*values):
    start = np.cumsum([0, *(len(row) for row in values)])
    slot = np.array([slot for row in values for slot in row], np.int32)
    return SparseRows(start, slot, np.array([v for row in values for v in row.values()], float), 4)


def test_the_array_by_hand():
    found = rows({1: 2.0, 3: 5.0}, {}, {0: 7.0})
    assert found.rows == 3
    np.testing.assert_array_equal(found.dense(), [[0, 2, 0, 5], [0, 0, 0, 0], [7, 0, 0, 0]])
    np.testing.assert_array_equal(SparseRows.of(found.dense()).dense(), found.dense())


def test_the_last_rows_of_two():
    before, more = rows({1: 2.0}, {2: 3.0}, {}), rows({0: 4.0, 1: 5.0})
    whole = np.concatenate([before.dense(), more.dense()])
    for most in range(1, 6):
        np.testing.assert_array_equal(before.then(more, most).dense(), whole[-most:])
    assert SparseRows.empty(4).then(more, 9).dense().tolist() == [[4, 5, 0, 0]]

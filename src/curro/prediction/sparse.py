"""Rows of features of which few are not 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SparseRows(NamedTuple):
    """Features of P prompts; row p has `value[start[p]:start[p + 1]]` at the columns `slot` there.

    Attributes:
        start: int64 (P + 1,).
        slot: int32 (Z,), columns; those of a row are distinct.
        value: float64 (Z,).
        width: D, the number of columns.
    """

    start: np.ndarray
    slot: np.ndarray
    value: np.ndarray
    width: int

    @classmethod
    def empty(cls, width: int) -> SparseRows:
        """No rows."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), width)

    @classmethod
    def of(cls, rows_PD: np.ndarray) -> SparseRows:
        """All elements of an array, zeros too."""
        count, width = rows_PD.shape
        slot = np.tile(np.arange(width, dtype=np.int32), count)
        return cls(np.arange(count + 1) * width, slot, rows_PD.ravel().astype(np.float64), width)

    @property
    def rows(self) -> int:
        """P."""
        return len(self.start) - 1

    def dense(self) -> np.ndarray:
        """The array, float64 (P, D)."""
        row = np.repeat(np.arange(self.rows), np.diff(self.start))
        found = np.zeros((self.rows, self.width))
        found[row, self.slot] = self.value
        return found

    def then(self, more: SparseRows, most: int) -> SparseRows:
        """The rows of both, of these the last so many at most."""
        start = np.concatenate([self.start, self.start[-1] + more.start[1:]])
        first = max(0, len(start) - 1 - most)
        cut = start[first]
        slot = np.concatenate([self.slot, more.slot])[cut:]
        value = np.concatenate([self.value, more.value])[cut:]
        return SparseRows(start[first:] - cut, slot, value, self.width)

    def beside(self, value_P: np.ndarray) -> SparseRows:
        """The rows with one more column, the last."""
        ends = self.start[1:]
        slot = np.insert(self.slot, ends, np.int32(self.width))
        value = np.insert(self.value, ends, value_P)
        return SparseRows(self.start + np.arange(len(self.start)), slot, value, self.width + 1)

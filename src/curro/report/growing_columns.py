"""Columns that rows are appended to, at a constant cost a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class GrowingColumns:
    """Named columns of equal length; a column that a row lacks is NaN there.

    A column that `__getitem__` gave stays as it is while rows are appended.
    """

    def __init__(self) -> None:
        self.length = 0
        self._columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name][: self.length]

    def names(self) -> list[str]:
        """In the order in which they came."""
        return list(self._columns)

    def append(self, rows: Mapping[str, np.ndarray], count: int) -> None:
        """Add `count` rows; a column that is new has to be of floats, unless there are no rows yet."""
        end = self.length + count
        for name, values in rows.items():
            if name not in self._columns:
                self._columns[name] = np.empty(max(end, 1024), values.dtype)
                if self.length:
                    self._columns[name][: self.length] = np.nan
        for name, column in self._columns.items():
            if end > len(column):
                grown = np.empty(max(end, 2 * len(column)), column.dtype)
                grown[: self.length] = column[: self.length]
                self._columns[name] = column = grown
            column[self.length : end] = rows.get(name, np.nan)
        self.length = end

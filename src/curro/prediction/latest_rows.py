"""The latest rows of a matrix that grows."""

from __future__ import annotations

import numpy as np


class LatestRows:
    """The latest rows that were added, one after the other in memory.

    Args:
        most: how many are kept, K.
        width: of a row, D.
    """

    def __init__(self, most: int, width: int) -> None:
        self.most, self.end = most, 0
        # twice the room, so that rows move once in K additions
        self._room = np.empty((2 * most, width))

    @property
    def rows(self) -> np.ndarray:
        """Up to K rows, the latest last: float64 (at most K, D), until more are added."""
        return self._room[max(0, self.end - self.most) : self.end]

    def add(self, more_PD: np.ndarray) -> None:
        """Add rows; where they are over K, the last of them."""
        more_PD = more_PD[-self.most :]
        if self.end + len(more_PD) > len(self._room):
            kept = self.rows[len(more_PD) :]
            self._room[: len(kept)] = kept
            self.end = len(kept)
        self._room[self.end : self.end + len(more_PD)] = more_PD
        self.end += len(more_PD)

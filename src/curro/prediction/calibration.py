"""From what was predicted to what came of it: a line that is learnt as groups come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.saved_state import require

WINDOW = 64
"""Groups that the line remembers; while the policy learns, those of a hundred groups ago mislead it."""
PRIOR = 32
"""Groups that came out as predicted before the first one: half at 0, half at the highest variance, 1/4."""


class Calibration:
    """Least squares of realised on predicted values, of which the oldest fade.

    What is chosen for its high prediction comes out lower on average (the winner's curse), and what is
    predicted to be near 0 comes out higher. Only groups that were chosen tell of that. The line never falls,
    so it changes no choice among the predictions of one moment.
    """

    def __init__(self) -> None:
        high = 0.25
        # of 1, x, y, x^2 and x y
        self.sums = PRIOR * np.array([1, high / 2, high / 2, high**2 / 2, high**2 / 2])

    def learn(self, predicted_P: np.ndarray, realised_P: np.ndarray) -> None:
        """Take in groups (P,)."""
        x, y = predicted_P, realised_P
        new = np.array([len(x), x.sum(), y.sum(), (x * x).sum(), (x * y).sum()])
        self.sums = (1 - 1 / WINDOW) ** len(x) * self.sums + new

    @property
    def line(self) -> tuple[float, float]:
        """Where it stands at 0, and its slope, neither below 0."""
        x, y, xx, xy = (self.sums[1:] / self.sums[0]).tolist()
        slope = max(xy - x * y, 0.0) / max(xx - x * x, 1e-12)
        if slope * x > y:
            slope = y / max(x, 1e-12)
        return y - slope * x, slope

    def __call__(self, predicted_P: np.ndarray) -> np.ndarray:
        """What is to be expected of predictions (P,)."""
        start, slope = self.line
        return start + slope * predicted_P

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        sums = state["sums"]
        fine = sums.shape == self.sums.shape and np.isfinite(sums).all() and sums[0] > 0
        require(fine, "calibration/sums", "is not of groups")
        self.sums = sums.copy()

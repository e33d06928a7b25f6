"""Difficulty bands: groups whose pass rate lies between two thresholds."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Gate
from curro.core.errors import ConfigError, require
from curro.core.groups import Groups

ENDS = ("neither", "low", "high", "both")
_ROUNDING = 1e-7
"""Tolerance of comparisons with a threshold: hosts give rewards in float32, where 3/10 is 0.30000001."""


class DifficultyBand(Gate):
    """Groups whose pass rate p lies between two thresholds.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", algorithm 1 and section 3.4.

    The ends are open as table 1 writes its balanced bands (0.3 < p < 0.7); algorithm 1 writes them closed.
    `band:0,1` is the zero-variance filter of 0/1 rewards; `band:0,1,high` is table 1's 0 < p <= 1.

    Args:
        low, high: thresholds on the pass rate, 0 <= low < high <= 1 (low = high with both ends closed).
        closed: which ends belong to the band: "neither", "low", "high" or "both".

    Raises:
        ConfigError: thresholds that are not such numbers, or that nothing lies between.
    """

    def __init__(self, low: float, high: float, closed: str = "neither") -> None:
        require(closed in ENDS, "closed", f"one of {', '.join(ENDS)}", closed)
        if not 0 <= low <= high <= 1 or (low == high and closed != "both"):
            raise ConfigError(f"a band needs 0 <= low < high <= 1, not {low} and {high}")
        self.low, self.high, self.closed = low, high, closed

    def __call__(self, groups: Groups) -> np.ndarray:
        return between(self.table.success_rate(groups.mean), self.low, self.high, self.closed)

    def why_empty(self, group: int) -> str:
        """Say that no group of 0/1 rewards of this size lies in the band; "" where some does."""
        if between(np.arange(group + 1) / group, self.low, self.high, self.closed).any():
            return ""
        return (
            f"no group of {group} rollouts with rewards of 0 and 1 has a pass rate in the band from "
            f"{self.low:g} to {self.high:g}: widen the band or raise the rollouts of each prompt"
        )


def between(value: np.ndarray, low: float, high: float, closed: str) -> np.ndarray:
    """Whether values lie between thresholds whose `closed` ends belong; rounding apart."""
    above = value >= low - _ROUNDING if closed in ("low", "both") else value > low + _ROUNDING
    below = value <= high + _ROUNDING if closed in ("high", "both") else value < high - _ROUNDING
    return above & below

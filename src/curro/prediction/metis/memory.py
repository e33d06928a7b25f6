"""The calibration memory: the latest prompts with their realised variances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.saved_state import require

WINDOW = 64
"""The latest pairs among which `spread` chooses."""


class CalibrationMemory:
    """The latest pairs of prompt and variance, of which K are shown (METIS, section 4.1).

    Args:
        size: K.
        spread: show, of the latest `WINDOW` pairs, those nearest to K variances spaced evenly from the
            lowest to the highest, as in the examples of appendix B.3; else the K latest.
    """

    def __init__(self, size: int, *, spread: bool) -> None:
        self.size, self.spread = size, spread
        self.prompts = np.empty(0, np.int64)
        self.variances = np.empty(0)

    def add(self, prompts: np.ndarray, variances: np.ndarray) -> None:
        """Add pairs (P,), the latest last."""
        window = max(self.size, WINDOW) if self.spread else self.size
        kept = max(len(self.prompts) + len(prompts) - window, 0)
        self.prompts = np.concatenate([self.prompts, prompts])[kept:]
        self.variances = np.concatenate([self.variances, variances])[kept:]

    def exemplars(self) -> tuple[np.ndarray, np.ndarray]:
        """Prompts and variances (K,) to show; fewer while there are fewer.

        The latest stands last; with `spread` they ascend by variance.
        """
        rows = self._spread() if self.spread else np.arange(len(self.prompts))
        return self.prompts[rows], self.variances[rows]

    def _spread(self) -> np.ndarray:
        chosen: list[int] = []
        k = min(self.size, len(self.prompts))
        if k:
            low, high = self.variances.min(), self.variances.max()
            for target in np.linspace(low, high, k) if k > 1 else [(low + high) / 2]:
                distance = np.abs(self.variances - target)
                distance[chosen] = np.inf
                # of equally near pairs the latest
                chosen.append(len(distance) - 1 - int(distance[::-1].argmin()))
        rows = np.array(chosen, np.int64)
        return rows[np.argsort(self.variances[rows], kind="stable")]

    def state_dict(self) -> dict[str, Any]:
        return {"prompts": self.prompts.copy(), "variances": self.variances.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        prompts, variances = state["prompts"], state["variances"]
        require(prompts.shape == variances.shape, "metis/memory", "is not of pairs")
        require((variances >= 0).all(), "metis/memory", "has variances below 0")
        self.prompts, self.variances = prompts.copy(), variances.copy()

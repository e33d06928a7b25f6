"""Pair what a method predicted of groups with what came of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curro.core.bases import Reason
from curro.runs.reader import History, scale

_QUANTITIES = {"predicted_variance": "reward variance", "predicted_rate": "success rate"}


@dataclass(frozen=True)
class Predictions:
    """The groups of a run that were predicted, in order; arrays of shape (K,).

    Attributes:
        quantity: "reward variance" in squared reward ranges, or "success rate".
        predicted, realised: float64.
        explored: bool, whether the prompt was taken at random and not for its prediction.
        rollouts: float64, the size of the group; NaN where the run did not write it down.
    """

    quantity: str
    predicted: np.ndarray
    realised: np.ndarray
    explored: np.ndarray
    rollouts: np.ndarray


def predictions_of(history: History) -> Predictions | None:
    """Read what was predicted and what came of it; None for a run without predictions."""
    groups = history.groups
    low, high = scale(history.config).reward_range
    realised = {"predicted_variance": groups.variance / (high - low) ** 2, "predicted_rate": groups.rate}
    for name, values in groups.predicted.items():
        rows = np.flatnonzero(~np.isnan(values))
        if len(rows):
            return Predictions(
                _QUANTITIES[name],
                values[rows],
                realised[name][rows],
                groups.reason[rows] == Reason.EXPLORATION,
                groups.rollouts[rows],
            )
    return None


def calibration_bins(
    predicted_K: np.ndarray, realised_K: np.ndarray, bins: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average predictions and outcomes in quantile bins; equal predictions share a bin.

    Returns:
        The mean prediction, the mean outcome and its standard error in each bin, 0 in a bin of one group.
    """
    shares = np.arange(1, bins) / bins
    edges = np.unique(np.quantile(predicted_K, shares, method="inverted_cdf"))
    _, bin_K, count = np.unique(np.searchsorted(edges, predicted_K), return_inverse=True, return_counts=True)
    mean, realised, square = (
        np.bincount(bin_K, values) / count for values in (predicted_K, realised_K, realised_K**2)
    )
    spread = np.maximum(square - realised**2, 0)
    return mean, realised, np.sqrt(spread / np.maximum(count - 1, 1))

"""How well a predictor predicts: rank correlation and calibration over the latest groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

WINDOW = 512
"""Groups over which quality is measured."""


class PredictionQuality:
    """The latest pairs of predicted and realised values, and what they say."""

    def __init__(self) -> None:
        self.predicted = np.empty(0)
        self.realised = np.empty(0)

    def observe(self, predicted_P: np.ndarray, realised_P: np.ndarray) -> None:
        """Take in pairs; those without a prediction (NaN) are passed over."""
        known = ~np.isnan(predicted_P)
        self.predicted = np.concatenate([self.predicted, predicted_P[known]])[-WINDOW:]
        self.realised = np.concatenate([self.realised, realised_P[known]])[-WINDOW:]

    def metrics(self) -> dict[str, float]:
        """Spearman's rank correlation (NaN where a side is constant), mean and mean absolute error."""
        if len(self.predicted) < 2:
            return {}
        error = self.predicted - self.realised
        return {
            "prediction/rank_correlation": rank_correlation(self.predicted, self.realised),
            "prediction/mean_error": float(error.mean()),
            "prediction/mean_absolute_error": float(np.abs(error).mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"predicted": self.predicted.copy(), "realised": self.realised.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.predicted, self.realised = state["predicted"].copy(), state["realised"].copy()


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rho of two arrays (K,), ties with their mean rank; NaN where one is constant."""
    ranks = np.stack([_ranks(a), _ranks(b)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.square(ranks).sum(axis=1).prod())
    return float(ranks[0] @ ranks[1] / scale) if scale > 0 else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]

"""What was predicted beside what came of it: rank correlation and errors over the latest groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.checkpoint import Stateful, check_state
from curro.core.groups import UnlearnedGroups

WINDOW = 512
"""The number of latest groups over which quality is measured."""


class PredictionQuality(Stateful):
    """The latest pairs of predicted and realised values, and what they say.

    `observe` only keeps pairs, and `learn` takes in new ones since its last call (`UnlearnedGroups`).
    """

    remembered = ("pairs", "unlearned")

    def __init__(self) -> None:
        self.pairs = np.empty((2, 0))
        self.unlearned = UnlearnedGroups(3, np.inf)

    def observe(self, prompts: np.ndarray, predicted_P: np.ndarray, realised_P: np.ndarray) -> None:
        """Keep pairs of prompts (P,) for `learn`, without predictions that are NaN or infinite."""
        known_P = np.isfinite(predicted_P)
        self.unlearned.add(prompts[known_P], predicted_P[known_P], realised_P[known_P])

    def learn(self) -> None:
        """Take in what was observed."""
        self.pairs = self._latest(self.unlearned.take())

    def _latest(self, unlearned: np.ndarray) -> np.ndarray:
        return np.concatenate([self.pairs, unlearned[1:]], axis=1)[:, -WINDOW:]

    def metrics(self) -> dict[str, float]:
        """Spearman's rank correlation (NaN where a side is constant), mean error and mean absolute error.

        All three cover chosen prompts alone.
        """
        predicted, realised = self._latest(self.unlearned.in_order())
        if len(predicted) < 2:
            return {}
        error = predicted - realised
        return {
            "prediction/rank_correlation": rank_correlation(predicted, realised),
            "prediction/mean_error": float(error.mean()),
            "prediction/mean_absolute_error": float(np.abs(error).mean()),
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(len(self.pairs) == 2, "quality/pairs")


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rho of two arrays (K,), ties with their mean rank; NaN where one is constant."""
    ranks = np.stack([_ranks(a), _ranks(b)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.square(ranks).sum(axis=1).prod())
    return float(ranks[0] @ ranks[1] / scale) if scale > 0 else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    _, rank, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[rank]

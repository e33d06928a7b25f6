"""How well a predictor predicts: rank correlation and calibration over the latest groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.groups import by_prompt
from curro.storage.checkpoint import require

WINDOW = 512
"""Groups over which quality is measured."""


class PredictionQuality:
    """The latest pairs of predicted and realised values, and what they say.

    Which are the latest would depend on the order in which groups come in. So `observe` only keeps pairs, and
    `learn` takes in what has come since it was last called, in order of prompt.
    """

    def __init__(self) -> None:
        self.pairs = np.empty((2, 0))
        self.unlearned = np.empty((3, 0))
        self.chosen: tuple[np.ndarray, np.ndarray] | None = None
        self._spread_kept = float("nan")

    def choose(self, predicted_P: np.ndarray, best: np.ndarray) -> None:
        """Keep what was predicted of all candidates (P,), and of the best of them, for `spread_kept`."""
        self.chosen = predicted_P, best

    @property
    def spread_kept(self) -> float:
        """How much narrower the predictions of the best are than those of all candidates."""
        if self.chosen is not None:
            (predicted_P, best), self.chosen = self.chosen, None
            spread = predicted_P.std()
            self._spread_kept = float(best.std() / spread) if len(best) and spread > 0 else float("nan")
        return self._spread_kept

    def observe(self, prompts: np.ndarray, predicted_P: np.ndarray, realised_P: np.ndarray) -> None:
        """Keep pairs of prompts (P,) for `learn`; those without a prediction (NaN) are passed over."""
        unlearned = np.stack([prompts, predicted_P, realised_P])[:, ~np.isnan(predicted_P)]
        self.unlearned = np.concatenate([self.unlearned, unlearned], axis=1)

    def learn(self) -> None:
        """Take in what was observed."""
        self.pairs, self.unlearned = self._latest(), self.unlearned[:, :0]

    def _latest(self) -> np.ndarray:
        return np.concatenate([self.pairs, by_prompt(self.unlearned)[1:]], axis=1)[:, -WINDOW:]

    def metrics(self) -> dict[str, float]:
        """Spearman's rank correlation (NaN where a side is constant), mean and mean absolute error.

        Of chosen prompts alone. `spread_kept` says how narrow a choice that is: the standard deviation of the
        predictions of those chosen for them, as a share of all candidates', at the latest choice.
        """
        predicted, realised = self._latest()
        if len(predicted) < 2:
            return {}
        error = predicted - realised
        return {
            "prediction/rank_correlation": rank_correlation(predicted, realised),
            "prediction/mean_error": float(error.mean()),
            "prediction/mean_absolute_error": float(np.abs(error).mean()),
            "prediction/spread_kept": self.spread_kept,
        }

    def state_dict(self) -> dict[str, Any]:
        arrays = {"pairs": self.pairs.copy(), "unlearned": self.unlearned.copy()}
        return arrays | {"spread_kept": self.spread_kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        fine = len(state["pairs"]) == 2 and len(state["unlearned"]) == 3
        require(fine, "quality", "is not of pairs")
        self.pairs, self.unlearned = state["pairs"].copy(), state["unlearned"].copy()
        self.chosen, self._spread_kept = None, state["spread_kept"]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rho of two arrays (K,), ties with their mean rank; NaN where one is constant."""
    ranks = np.stack([_ranks(a), _ranks(b)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.square(ranks).sum(axis=1).prod())
    return float(ranks[0] @ ranks[1] / scale) if scale > 0 else float("nan")


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]

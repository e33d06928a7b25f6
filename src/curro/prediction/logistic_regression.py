"""Success rates from features: a logistic regression whose penalties are learnt by evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.errors import CheckpointError
from curro.prediction.logistic_kernels import centre_and_live, newton_step, predict
from curro.saved_state import require

ROUNDS = 3
"""Conjugate gradients of a Newton step."""
_LOOSEST, _TIGHTEST = 1e-2, 1e4
_FARTHEST = 4.0


class LogisticRegression:
    """Success rate p = 1 / (1 + exp(-(b + x w))) with w_d ~ Normal(mean_d, 1 / penalty of d's block).

    The features x count from their weighted mean. A fit begins at the last one and takes one step of Newton's
    method, by three conjugate gradients, that moves no logit by more than 4: it is meant to be called for
    every few groups that come in. Then the penalty of each block of D features takes a step of MacKay's
    evidence rule (Neural Computation 1992),

        known = sum over the block of 1 - penalty / H_dd,    at most the number of points
        penalty = known / |w - mean|^2,

    in [0.01, 10,000], with the diagonal of the Hessian H in place of its inverse's: blocks that do not help
    shrink away and nothing has to be tuned. A fit costs some passes over the features.

    Args:
        blocks: the number of features of each block.
        mean_D: what the weights are before the first fit and are drawn to; None: 0.
    """

    def __init__(self, blocks: Sequence[int], mean_D: np.ndarray | None = None) -> None:
        self.block_D = np.repeat(np.arange(len(blocks)), blocks)
        self.centre_D = np.zeros(len(self.block_D))
        self.mean_D = np.zeros(len(self.block_D)) if mean_D is None else mean_D
        self.weight_D = self.mean_D.copy()
        self.bias = 0.0
        self.penalty_B = np.ones(len(blocks))

    def fit(self, features_KD: np.ndarray, rate_K: np.ndarray, trials_K: np.ndarray) -> None:
        """Fit to success rates in [0, 1] of K rows, each of so many trials, not all of none."""
        live_D = np.empty(len(self.block_D), np.bool_)
        centre_and_live(features_KD, trials_K, self.centre_D, live_D)
        self.weight_D[~live_D] = self.mean_D[~live_D]
        penalty_D, diagonal_D = self.penalty_B[self.block_D], np.empty(len(self.block_D))
        self.bias = newton_step(
            features_KD, rate_K, trials_K, self.centre_D, live_D, penalty_D, self.mean_D, ROUNDS, _FARTHEST,
            self.bias, self.weight_D, diagonal_D,
        )  # fmt: skip
        blocks = len(self.penalty_B)
        known_B = np.bincount(self.block_D, live_D * (1 - penalty_D / diagonal_D), blocks)
        square_B = np.bincount(self.block_D, (self.weight_D - self.mean_D) ** 2, blocks)
        evidence_B = np.clip(known_B, 1e-3, len(rate_K)) / np.maximum(square_B, 1e-9)
        told_B = np.bincount(self.block_D, live_D, blocks) > 0
        self.penalty_B[told_B] = np.clip(evidence_B, _LOOSEST, _TIGHTEST)[told_B]

    def predict(self, features_PD: np.ndarray) -> np.ndarray:
        """Success rates (P,) of rows (P, D).

        Raises:
            CheckpointError: the rows have another number of features: the state was of other ones.
        """
        size, (rows, width) = len(self.weight_D), features_PD.shape
        if width != size:
            raise CheckpointError(f"the saved regression is of {size} features, the prompts have {width}")
        found_P = np.empty(rows)
        predict(features_PD, self.centre_D, self.bias, self.weight_D, found_P)
        return found_P

    def state_dict(self) -> dict[str, Any]:
        return {
            "centre": self.centre_D.copy(),
            "weight": self.weight_D.copy(),
            "bias": self.bias,
            "penalty": self.penalty_B.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        shapes = [state[name].shape for name in ("centre", "weight", "penalty")]
        fine = shapes == [self.block_D.shape, self.block_D.shape, self.penalty_B.shape]
        require(fine, "regression", "is of another number of features")
        numbers = np.concatenate([state["centre"], state["weight"], [state["bias"]]])
        fine = np.isfinite(numbers).all() and (state["penalty"] > 0).all()
        require(fine, "regression", "has numbers that are not finite, or penalties that are not above 0")
        self.centre_D, self.weight_D = state["centre"].copy(), state["weight"].copy()
        self.bias, self.penalty_B = float(state["bias"]), state["penalty"].copy()

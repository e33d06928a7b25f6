"""Success rates from features: a logistic regression whose penalties are learnt by evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_ROUNDS = 2
_LOOSEST, _TIGHTEST = 1e-2, 1e4
_FARTHEST = 4.0


class LogisticRegression:
    """Success rate p = 1 / (1 + exp(-(b + x w))) with w_d ~ Normal(0, 1 / penalty of d's block).

    The features x count from their weighted mean. A fit begins at the last one and takes two steps of
    Newton's method, none of which moves a logit by more than 4. Then the penalty of each block of D features
    takes a step of MacKay's evidence rule (Neural Computation 1992),

        penalty = (D - penalty tr S) / |w|^2,    S the block of the inverse Hessian,

    in [0.01, 10,000]: blocks that do not help shrink away and nothing has to be tuned. With more features
    than points the matrix that is inverted has the size of the points.

    Args:
        blocks: the number of features of each block.
    """

    def __init__(self, blocks: Sequence[int]) -> None:
        self.block_D = np.repeat(np.arange(len(blocks)), blocks)
        self.centre_D = np.zeros(len(self.block_D))
        self.weight_D = np.zeros(len(self.block_D))
        self.bias = 0.0
        self.penalty_B = np.ones(len(blocks))

    def fit(self, features_KD: np.ndarray, rate_K: np.ndarray, trials_K: np.ndarray) -> None:
        """Fit to success rates in [0, 1], each of so many trials, not all of none."""
        self.centre_D = trials_K @ features_KD / trials_K.sum()
        centred_KD = features_KD - self.centre_D
        live = np.flatnonzero(np.ptp(features_KD, axis=0) > 0)
        x = np.concatenate([np.ones((len(rate_K), 1)), centred_KD[:, live]], axis=1)
        w = np.concatenate([[self.bias], self.weight_D[live]])
        penalty = np.concatenate([[1e-6], self.penalty_B[self.block_D[live]]])
        for _ in range(_ROUNDS):
            p_K = _logistic(x @ w)
            scaled = x * np.sqrt(trials_K * np.maximum(p_K * (1 - p_K), 1e-4))[:, None]
            step = _solve(scaled, penalty, x.T @ (trials_K * (rate_K - p_K)) - penalty * w)
            w = w + step * min(1.0, _FARTHEST / max(np.abs(x @ step).max(), 1e-9))
        self.bias, self.weight_D[:] = float(w[0]), 0.0
        self.weight_D[live] = w[1:]
        spread = _variances(scaled, penalty)
        for block in range(len(self.penalty_B)):
            of = np.flatnonzero(self.block_D[live] == block) + 1
            known = len(of) - self.penalty_B[block] * spread[of].sum()
            if len(of):
                evidence = max(known, 1e-3) / max(np.square(w[of]).sum(), 1e-9)
                self.penalty_B[block] = np.clip(evidence, _LOOSEST, _TIGHTEST)

    def predict(self, features_PD: np.ndarray) -> np.ndarray:
        """Success rates (P,)."""
        return _logistic(self.bias + (features_PD - self.centre_D) @ self.weight_D)

    def state_dict(self) -> dict[str, Any]:
        return {
            "centre": self.centre_D.copy(),
            "weight": self.weight_D.copy(),
            "bias": self.bias,
            "penalty": self.penalty_B.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.centre_D, self.weight_D = state["centre"].copy(), state["weight"].copy()
        self.bias, self.penalty_B = state["bias"], state["penalty"].copy()


def _solve(scaled_KD: np.ndarray, penalty_D: np.ndarray, gradient_D: np.ndarray) -> np.ndarray:
    """H^-1 g for the Hessian H = X'X + diag(penalty); by Woodbury's identity where D > K."""
    if len(scaled_KD) >= len(penalty_D):
        return np.linalg.solve(scaled_KD.T @ scaled_KD + np.diag(penalty_D), gradient_D)
    free_D, spread_KD = gradient_D / penalty_D, scaled_KD / penalty_D
    inner_KK = np.eye(len(scaled_KD)) + spread_KD @ scaled_KD.T
    return free_D - spread_KD.T @ np.linalg.solve(inner_KK, scaled_KD @ free_D)


def _variances(scaled_KD: np.ndarray, penalty_D: np.ndarray) -> np.ndarray:
    """The diagonal of H^-1."""
    if len(scaled_KD) >= len(penalty_D):
        return np.diag(np.linalg.inv(scaled_KD.T @ scaled_KD + np.diag(penalty_D)))
    spread_KD = scaled_KD / penalty_D
    inner_KK = np.eye(len(scaled_KD)) + spread_KD @ scaled_KD.T
    half_KD = np.linalg.solve(np.linalg.cholesky(inner_KK), spread_KD)
    return 1 / penalty_D - np.square(half_KD).sum(axis=0)


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))

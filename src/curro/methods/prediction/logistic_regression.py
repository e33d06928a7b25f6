"""Success rates from features: a logistic regression that says 1/2 where it knows nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.checkpoint import Stateful, check_state
from curro.core.errors import CheckpointError

FLAT_BIAS = 1e-6
"""Penalty of the bias, so small that the bias is free."""
ROUNDS = 3
"""Steps of conjugate gradients in a step of Newton's method."""
_FARTHEST = 4.0


class LogisticRegression(Stateful):
    """Success rate p = 1 / (1 + exp(-(b + x w))) with w_d ~ Normal(mean_d, 1).

    The features x are centred at their weighted mean. A fit starts from the last one and takes one step of
    Newton's method, solved by three steps of conjugate gradients, that moves no logit by more than 4; it is
    meant to be called after every few groups, and costs a few passes over the features.

    Predictions are moderated by the uncertainty of the weights (MacKay, "The evidence framework applied to
    classification networks", Neural Computation 1992), with the diagonal of the Hessian H:

        p = 1 / (1 + exp(-z / sqrt(1 + pi v / 8))),    z = b + x w,    v = sum of x_d^2 / H_dd

    It is near 1/2 where the features were seldom seen, so that a family of prompts unlike all others is
    tried.

    Args:
        mean_D: prior means of the weights, which they have before the first fit.
    """

    remembered = ("centre_D", "weight_D", "variance_D", "bias")

    def __init__(self, mean_D: np.ndarray) -> None:
        self.mean_D, self.weight_D = mean_D, mean_D.copy()
        self.bias, self.centre_D = 0.0, np.zeros(len(mean_D))
        self.variance_D = np.zeros(len(mean_D))  # before the first fit the means are taken at their word

    def fit(self, features_KD: np.ndarray, rate_K: np.ndarray, trials_K: np.ndarray) -> None:
        """Fit to K rows with success rates in [0, 1], measured by `trials_K` trials, not all of them 0."""
        self.centre_D = trials_K @ features_KD / trials_K.sum()
        live_D = (features_KD != features_KD[0]).any(axis=0)
        self.weight_D = np.where(live_D, self.weight_D, self.mean_D)
        x_KD = features_KD - self.centre_D
        p_K = _logistic(self.bias + x_KD @ self.weight_D)
        curve_K, rest_K = trials_K * np.maximum(p_K * (1 - p_K), 1e-4), trials_K * (rate_K - p_K)
        # the Hessian's diagonal, by which conjugate gradients are preconditioned; the bias stands apart
        diagonal_D = np.einsum("k,kd,kd->d", curve_K, x_KD, x_KD) + 1
        diagonal_0 = curve_K.sum() + FLAT_BIAS
        residual_0 = rest_K.sum() - FLAT_BIAS * self.bias
        residual_D = rest_K @ x_KD - (self.weight_D - self.mean_D)
        residual_D = np.where(live_D, residual_D, 0.0)
        step_0, step_D = 0.0, np.zeros(len(live_D))
        search_0, search_D = residual_0 / diagonal_0, residual_D / diagonal_D
        length = residual_0 * search_0 + (residual_D * search_D).sum()
        enough = 1e-16 * length
        for _ in range(ROUNDS):
            if not length > enough:
                break
            bent_K = curve_K * (search_0 + x_KD @ search_D)
            image_0 = bent_K.sum() + FLAT_BIAS * search_0
            image_D = bent_K @ x_KD + search_D
            far = length / (search_0 * image_0 + (search_D * image_D).sum())
            step_0, step_D = step_0 + far * search_0, step_D + far * search_D
            residual_0 -= far * image_0
            residual_D = np.where(live_D, residual_D - far * image_D, 0.0)
            before = length
            length = residual_0**2 / diagonal_0 + (residual_D**2 / diagonal_D).sum()
            search_0 = residual_0 / diagonal_0 + length / before * search_0
            search_D = residual_D / diagonal_D + length / before * search_D
        farthest = np.abs(step_0 + x_KD @ step_D).max()
        short = min(1.0, _FARTHEST / max(farthest, 1e-9))
        self.bias = float(self.bias + short * step_0)
        self.weight_D = self.weight_D + short * step_D
        self.variance_D = 1 / diagonal_D

    def predict(self, features_PD: np.ndarray) -> np.ndarray:
        """Success rates (P,) of rows (P, D).

        Raises:
            CheckpointError: the rows have another number of features than the regression, whose state was
                saved with other features.
        """
        size, width = len(self.weight_D), features_PD.shape[1]
        if width != size:
            raise CheckpointError(f"the saved regression is of {size} features, the prompts have {width}")
        x_PD = features_PD - self.centre_D
        # unlike BLAS, einsum adds up each row alike, whatever rows stand beside it
        spread_P = np.einsum("pd,pd,d->p", x_PD, x_PD, self.variance_D)
        logit_P = self.bias + np.einsum("pd,d->p", x_PD, self.weight_D)
        return _logistic(logit_P / np.sqrt(1 + np.pi / 8 * spread_P))

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        arrays = self.centre_D, self.weight_D, self.variance_D
        has_shapes = all(array_D.shape == self.mean_D.shape for array_D in arrays)
        check_state(has_shapes and np.isfinite([*np.concatenate(arrays), self.bias]).all(), "regression")
        check_state((self.variance_D >= 0).all(), "regression/variance")


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -30.0, 30.0)))

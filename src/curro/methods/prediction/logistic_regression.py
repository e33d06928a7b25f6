"""Success rates from features: a logistic regression that says 1/2 where it knows nothing.

The class comes first. Its kernels follow: prediction, the mean of the features, one step of Newton's method,
and the products of matrices and vectors that they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_state
from curro.core.compiled import kernel, part, sum_part
from curro.core.errors import CheckpointError

FLAT_BIAS = 1e-6
"""Penalty of the bias, so small that the bias is free."""
ROUNDS = 3
"""Steps of conjugate gradients in a step of Newton's method."""
_FARTHEST = 4.0


class LogisticRegression:
    """Success rate p = 1 / (1 + exp(-(b + x w))) with w_d ~ Normal(mean_d, 1).

    The features x are centred at their weighted mean. A fit starts from the last one and takes one step of
    Newton's method, solved by three steps of conjugate gradients, that moves no logit by more than 4; it is
    meant to be called after every few groups, and costs a few passes over the features.

    Predictions are moderated by the uncertainty of the weights (MacKay, "The evidence framework applied to
    classification networks", Neural Computation 1992), with the diagonal of the Hessian H:

        p = 1 / (1 + exp(-z / sqrt(1 + pi v / 8))),    z = b + x w,    v = sum of x_d^2 / H_dd

    It is near 1/2 where the features were seldom seen, so that a family of prompts unlike all others is
    tried. A learnt variance of the weights would hold the few words that tell families apart to the weights
    of the many that tell nothing.

    Args:
        mean_D: prior means of the weights, which they have before the first fit.
    """

    def __init__(self, mean_D: np.ndarray) -> None:
        self.mean_D, self.weight_D = mean_D, mean_D.copy()
        self.bias, self.centre_D = 0.0, np.zeros(len(mean_D))
        self.variance_D = np.zeros(len(mean_D))  # before the first fit the means are taken at their word

    def fit(self, features_KD: np.ndarray, rate_K: np.ndarray, trials_K: np.ndarray) -> None:
        """Fit to K rows with success rates in [0, 1], measured by `trials_K` trials, not all of them 0."""
        live_D, diagonal_D = np.empty(len(self.mean_D), np.bool_), np.empty(len(self.mean_D))
        centre_and_live(features_KD, trials_K, self.centre_D, live_D)
        self.weight_D[~live_D] = self.mean_D[~live_D]
        self.bias = newton_step(
            features_KD, rate_K, trials_K, self.centre_D, live_D, self.mean_D, ROUNDS, _FARTHEST,
            self.bias, self.weight_D, diagonal_D,
        )  # fmt: skip
        self.variance_D = 1 / diagonal_D

    def predict(self, features_PD: np.ndarray) -> np.ndarray:
        """Success rates (P,) of rows (P, D).

        Raises:
            CheckpointError: the rows have another number of features than the regression, whose state was
                saved with other features.
        """
        size, (rows, width) = len(self.weight_D), features_PD.shape
        if width != size:
            raise CheckpointError(f"the saved regression is of {size} features, the prompts have {width}")
        rate_P = np.empty(rows)
        predict(features_PD, self.centre_D, self.bias, self.weight_D, self.variance_D, rate_P)
        return rate_P

    def state_dict(self) -> dict[str, Any]:
        arrays = {"centre": self.centre_D, "weight": self.weight_D, "variance": self.variance_D}
        return {name: array_D.copy() for name, array_D in arrays.items()} | {"bias": self.bias}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        arrays = [state[name] for name in ("centre", "weight", "variance")]
        has_shapes = all(array_D.shape == self.mean_D.shape for array_D in arrays)
        check_state(has_shapes, "regression", "is of another number of features")
        is_valid = np.isfinite([*np.concatenate(arrays), state["bias"]]).all() and (arrays[2] >= 0).all()
        check_state(is_valid, "regression", "has numbers that no fit gives")
        self.centre_D, self.weight_D, self.variance_D = (array_D.copy() for array_D in arrays)
        self.bias = float(state["bias"])


@kernel
def predict(features, centre, bias, weight, variance, out):  # type: ignore[no-untyped-def]
    """Write the moderated success rate of each row."""
    _times(features, centre, bias, weight, out)
    for k in range(out.size):
        spread = 0.0
        for d in range(centre.size):
            spread += (features[k, d] - centre[d]) ** 2 * variance[d]
        out[k] = _logistic(out[k] / np.sqrt(1 + np.pi / 8 * spread))


@kernel
def centre_and_live(features, trials, centre, live):  # type: ignore[no-untyped-def]
    """Write the mean of each feature, weighted by trials, and whether the feature varies at all."""
    centre[:], live[:] = 0, False
    for k in range(trials.size):
        for d in range(centre.size):
            centre[d] += trials[k] * features[k, d]
            live[d] |= features[k, d] != features[0, d]
    total = trials.sum()
    for d in range(centre.size):
        centre[d] /= total


@kernel
def newton_step(  # type: ignore[no-untyped-def]
    features, rate, trials, centre, live, mean, rounds, farthest, bias, weight, diagonal
):
    """One step of Newton's method, by conjugate gradients with the Hessian's diagonal in front.

    Moves `weight` and fills `diagonal`, the Hessian's; returns the bias.
    """
    count, width = rate.size, centre.size
    logit, curve, rest = np.empty(count), np.empty(count), np.empty(count)
    _times(features, centre, bias, weight, logit)
    for k in range(count):
        p = _logistic(logit[k])
        curve[k] = trials[k] * max(p * (1 - p), 1e-4)
        rest[k] = trials[k] * (rate[k] - p)
    residual = np.empty(width)
    residual_0 = _back(features, centre, rest, residual) - FLAT_BIAS * bias
    once = np.zeros(width)
    diagonal[:] = 0
    whole = curve.sum()
    for k in range(count):
        for d in range(width):
            bent = curve[k] * features[k, d]
            once[d] += bent
            diagonal[d] += bent * features[k, d]
    for d in range(width):
        spread = diagonal[d] + centre[d] * (centre[d] * whole - 2 * once[d])
        diagonal[d] = max(spread, 0.0) + 1
        residual[d] = residual[d] - (weight[d] - mean[d]) if live[d] else 0.0
    step, search, image = np.zeros(width), residual / diagonal, np.empty(width)
    step_0, search_0 = 0.0, residual_0 / (whole + FLAT_BIAS)
    length = residual_0 * search_0 + (residual * search).sum()
    enough = 1e-16 * length
    for _ in range(rounds):
        if not length > enough:
            break
        _times(features, centre, search_0, search, logit)
        for k in range(count):
            logit[k] *= curve[k]
        image_0 = _back(features, centre, logit, image) + FLAT_BIAS * search_0
        along = search_0 * image_0
        for d in range(width):
            image[d] += search[d]
            along += search[d] * image[d]
        far = length / along
        step_0 += far * search_0
        residual_0 -= far * image_0
        before, length = length, residual_0 * residual_0 / (whole + FLAT_BIAS)
        for d in range(width):
            step[d] += far * search[d]
            residual[d] = residual[d] - far * image[d] if live[d] else 0.0
            length += residual[d] * residual[d] / diagonal[d]
        search_0 = residual_0 / (whole + FLAT_BIAS) + length / before * search_0
        for d in range(width):
            search[d] = residual[d] / diagonal[d] + length / before * search[d]
    _times(features, centre, step_0, step, logit)
    short = min(1.0, farthest / max(np.abs(logit).max(), 1e-9))
    for d in range(width):
        weight[d] += short * step[d]
    return bias + short * step_0


@part
def _times(features, centre, bias, weight, out):  # type: ignore[no-untyped-def]
    """bias + (x - centre) weight of each row x."""
    shift = bias
    for d in range(centre.size):
        shift -= centre[d] * weight[d]
    for k in range(out.size):
        out[k] = shift + _row_times(features, k, weight)


@part
def _back(features, centre, rows, out):  # type: ignore[no-untyped-def]
    """Sums over the rows of rows[k] (x - centre), into `out`; returns the sum of `rows`."""
    out[:] = 0
    whole = 0.0
    for k in range(rows.size):
        whole += rows[k]
        for d in range(out.size):
            out[d] += rows[k] * features[k, d]
    for d in range(out.size):
        out[d] -= centre[d] * whole
    return whole


@sum_part
def _row_times(features, k, weight):  # type: ignore[no-untyped-def]
    total = 0.0
    for d in range(weight.size):
        total += features[k, d] * weight[d]
    return total


@part
def _logistic(x):  # type: ignore[no-untyped-def]
    return 1 / (1 + np.exp(-min(max(x, -30.0), 30.0)))

"""Kernels of the logistic regression: a fit in some passes over the features."""

import numpy as np

from curro.index.compiled import kernel, part, sum_part

FLAT_BIAS = 1e-6
"""The penalty of the bias."""


@part
def _logistic(x):  # type: ignore[no-untyped-def]
    return 1 / (1 + np.exp(-min(max(x, -30.0), 30.0)))


@sum_part
def _row_times(features, k, weight):  # type: ignore[no-untyped-def]
    total = 0.0
    for d in range(weight.size):
        total += features[k, d] * weight[d]
    return total


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


@kernel
def predict(features, centre, bias, weight, out):  # type: ignore[no-untyped-def]
    """Success rates of the rows."""
    _times(features, centre, bias, weight, out)
    for k in range(out.size):
        out[k] = _logistic(out[k])


@kernel
def centre_and_live(features, trials, centre, live):  # type: ignore[no-untyped-def]
    """The mean of each feature, weighted by trials, and whether it varies at all."""
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
    features, rate, trials, centre, live, penalty, mean, rounds, farthest, bias, weight, diagonal
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
        diagonal[d] = max(spread, 0.0) + penalty[d]
        residual[d] = residual[d] - penalty[d] * (weight[d] - mean[d]) if live[d] else 0.0
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
            image[d] += penalty[d] * search[d]
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

"""Pass rates, temperatures and the sums that must not cancel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from curro.errors import ConfigError


def excess(x: np.ndarray, scale: np.ndarray | float = 0.0) -> np.ndarray:
    """(e^x - 1 - x) / e^scale to full precision; a scale near a large x keeps it from overflow."""
    small, series = np.clip(x, -0.5, 0.5), np.ones_like(x)
    for k in range(14, 2, -1):
        series = 1 + small / k * series
    unit = np.exp(-scale)
    large = np.where(x > 0, np.exp(x - scale) - (1 + x) * unit, (np.expm1(-abs(x)) - x) * unit)
    return np.where(abs(x) < 0.5, small**2 / 2 * series * unit, large)


def log_mean_exp(centred: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log sum(w e^x) over the last axis, where sum(w x) = 0 and sum(w) = 1.

    As log(1 + sum(w (e^x - 1 - x))), whose terms are all positive, so that nothing cancels.
    """
    centred = np.where(weights > 0, centred, 0.0)
    scale = centred.max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(divide="ignore"):
        return np.logaddexp(0.0, scale[..., 0] + np.log((weights * excess(centred, scale)).sum(axis=-1)))


def check_rate(pass_rate: ArrayLike) -> np.ndarray:
    return check_range("a pass rate", pass_rate, 0, 1, "leave out prompts not seen yet")


def check_beta(beta: ArrayLike) -> np.ndarray:
    return check_range("beta", beta, 1e-12, 1e12, "give it in units of the reward")


def check_range(name: str, given: ArrayLike, low: float, high: float, advice: str) -> np.ndarray:
    values = np.asarray(given, np.float64)
    wrong = values[~((values >= low) & (values <= high))]
    if wrong.size:
        raise ConfigError(f"{name} lies between {low:g} and {high:g}, not {wrong[0]:g}: {advice}")
    return values

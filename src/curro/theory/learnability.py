"""The learnability of prompts with 0/1 rewards, and of a data set by its prompt table.

The closed forms of the divergence come first, with the bounds on it that hold; then the learnability of a
prompt table. The sums at the end are arranged so that nothing cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from curro.core.errors import ConfigError
from curro.core.prompts import PromptTable

BINS = 20
"""Bins of success rate in a summary, each 1/20 wide and with its lower end."""


def reverse_kl(pass_rate: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Divergence of 0/1 rewards, (13) with the sign of (10): log((1-p) + p e^(1/beta)) - p / beta.

    Accurate to 1e-12 of its value, also where the two terms are nearly equal.

    Raises:
        ConfigError: a pass rate outside 0..1, a beta outside 1e-12..1e12.
    """
    p, t = np.broadcast_arrays(check_rate(pass_rate), 1 / check_beta(beta))
    return log_mean_exp(np.stack([-p * t, (1 - p) * t], axis=-1), np.stack([1 - p, p], axis=-1))


def variance_approximation(variance: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """variance / (2 beta^2): the right side of (14), the divergence to leading order for large beta.

    The paper calls it a lower bound. For 0/1 rewards it is one up to the success rate `crossing(beta)`,
    which is below 1/2; `variance_bounds` hold everywhere.

    Raises:
        ConfigError: a variance below 0 or above 1e250, a beta outside 1e-12..1e12.
    """
    return (
        check_range("a variance", variance, 0, 1e250, "leave out groups without one")
        / check_beta(beta) ** 2
        / 2
    )


def variance_bounds(pass_rate: ArrayLike, beta: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound on `reverse_kl`, multiples of the variance v = p(1-p), in place of (14).

    v (1/beta - 1 + e^(-1/beta)) <= D <= v (e^(1/beta) - 1 - 1/beta), reached as p goes to 1 and to 0.
    The upper one is infinite where it exceeds the largest float.

    Raises:
        ConfigError: as `reverse_kl`.
    """
    p, t = np.broadcast_arrays(check_rate(pass_rate), 1 / check_beta(beta))
    variance = p * (1 - p)
    with np.errstate(over="ignore", invalid="ignore"):
        return variance * excess(-t), np.where(variance > 0, variance * excess(t), 0.0)


def crossing(beta: ArrayLike) -> np.ndarray:
    """The success rate p* in (0, 1/2) up to which (14) holds for 0/1 rewards; above it, it fails.

    About 1/2 - 1/(16 beta) for large beta, 2 beta for small. By bisection, and a series above beta = 100.

    Raises:
        ConfigError: a beta outside 1e-12..1e12.
    """
    beta = check_beta(beta)
    low, high = np.zeros_like(beta), np.full_like(beta, 0.5)
    for _ in range(100):
        middle = (low + high) / 2
        holds = reverse_kl(middle, beta) >= variance_approximation(middle * (1 - middle), beta)
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return np.where(beta > 100, 1 / 2 - 1 / (16 * beta) + 13 / (15360 * beta**3), low)


def most_learnable(beta: ArrayLike) -> np.ndarray:
    """The success rate at which `reverse_kl` is largest: beta - 1 / (e^(1/beta) - 1).

    About 1/2 - 1/(12 beta) for large beta, beta for small.

    Raises:
        ConfigError: a beta outside 1e-12..1e12.
    """
    t = 1 / check_beta(beta)
    return excess(t, t) / (t * -np.expm1(-t))


def learnability(table: PromptTable, beta: float) -> np.ndarray:
    """Estimated divergence (N,) of every prompt at its latest visit; NaN for prompts not seen yet.

    It is (13) at the success rate on the table's reward range, times the share of p(1-p) that the
    rewards varied by: all of it for rewards at the two ends of the range, where it is the plug-in
    estimate `sample_kl`; right to leading order for others. `beta` is in units of the reward.

    Raises:
        ConfigError: a beta whose ratio to the reward range is outside 1e-12..1e12.
    """
    low, high = table.reward_range
    seen = table["visits"] > 0
    mean, variance = (table[name][seen].astype(np.float64) for name in ("reward_mean", "reward_variance"))
    rate = np.clip(table.success_rate(mean), 1e-6, 1 - 1e-6)
    share = variance / (high - low) ** 2 / (rate * (1 - rate))
    estimate = np.full(table.size, np.nan)
    estimate[seen] = reverse_kl(rate, np.float64(beta) / (high - low)) * share
    return estimate


@dataclass(frozen=True)
class LearnabilitySummary:
    """The learnability of a data set, as far as its prompts have been seen.

    Attributes:
        beta: the temperature, in units of the reward.
        seen: share of prompts seen.
        flat: share of them whose latest group had no variance; NaN where none was seen.
        mean_kl: their mean `learnability` in nats; NaN where none was seen.
        counts: int64 (20,), how many of them have a success rate in [i/20, (i+1)/20); 1 is in the last.
    """

    beta: float
    seen: float
    flat: float
    mean_kl: float
    counts: np.ndarray

    @classmethod
    def of(cls, table: PromptTable, beta: float) -> LearnabilitySummary:
        """The summary of a prompt table.

        Raises:
            ConfigError: as `learnability`.
        """
        seen = table["visits"] > 0
        kl = learnability(table, beta)[seen]
        rate = np.clip(table.success_rate(table["reward_mean"][seen].astype(np.float64)), 0, 1)
        # in the table's float32 a rate of 14/20 is a little less
        bins = np.minimum((rate * BINS + 1e-5).astype(np.int64), BINS - 1)
        some = bool(seen.any())
        return cls(
            beta=float(beta),
            seen=float(seen.mean()),
            flat=float(table.is_flat(table["reward_variance"][seen]).mean()) if some else np.nan,
            mean_kl=float(kl.mean()) if some else np.nan,
            counts=np.bincount(bins, minlength=BINS),
        )


def check_rate(pass_rate: ArrayLike) -> np.ndarray:
    return check_range("a pass rate", pass_rate, 0, 1, "leave out prompts not seen yet")


def check_beta(beta: ArrayLike) -> np.ndarray:
    return check_range("beta", beta, 1e-12, 1e12, "give it in units of the reward")


def check_range(name: str, numbers: ArrayLike, low: float, high: float, advice: str) -> np.ndarray:
    values = np.asarray(numbers, np.float64)
    wrong = values[~((values >= low) & (values <= high))]
    if wrong.size:
        raise ConfigError(f"{name} lies between {low:g} and {high:g}, not {wrong[0]:g}: {advice}")
    return values


def log_mean_exp(centred: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log sum(w e^x) over the last axis, where sum(w x) = 0 and sum(w) = 1.

    As log(1 + sum(w (e^x - 1 - x))), whose terms are all positive, so that nothing cancels.
    """
    centred = np.where(weights > 0, centred, 0.0)
    scale = centred.max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(divide="ignore"):
        return np.logaddexp(0.0, scale[..., 0] + np.log((weights * excess(centred, scale)).sum(axis=-1)))


def excess(x: np.ndarray, scale: np.ndarray | float = 0.0) -> np.ndarray:
    """(e^x - 1 - x) / e^scale to full precision; a scale near a large x keeps it from overflow."""
    small, series = np.clip(x, -0.5, 0.5), np.ones_like(x)
    for k in range(14, 2, -1):
        series = 1 + small / k * series
    unit = np.exp(-scale)
    large = np.where(x > 0, np.exp(x - scale) - (1 + x) * unit, (np.expm1(-abs(x)) - x) * unit)
    return np.where(abs(x) < 0.5, small**2 / 2 * series * unit, large)

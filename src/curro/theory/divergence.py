"""The divergence of 0/1 rewards, and where the paper's bound of it holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from curro.theory.checks import check_beta, check_range, check_rate, excess, log_mean_exp


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

"""The divergence of rewards that are not 0/1, and its estimates from groups of rollouts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from curro.core.errors import ConfigError
from curro.core.groups import moments
from curro.theory.learnability import check_beta, log_mean_exp, variance_approximation


def gaussian_kl(variance: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Divergence of normally distributed rewards, (19): variance / (2 beta^2), here exact.

    Raises:
        ConfigError: as `variance_approximation`.
    """
    return variance_approximation(variance, beta)


def finite_kl(rewards: ArrayLike, probabilities: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """Divergence of rewards with K possible values, (17): log E[exp((r - mu) / beta)].

    Args:
        rewards: (..., K), the values.
        probabilities: (..., K), how likely each is; each row sums to 1.
        beta: (...).

    Raises:
        ConfigError: rewards that are not finite, probabilities that are negative or whose row does not
            sum to 1, a beta outside 1e-12..1e12.
    """
    centred, weights = _centred(rewards, probabilities)
    return log_mean_exp(centred / check_beta(beta)[..., None], weights)


def cumulant_expansion(
    rewards: ArrayLike, probabilities: ArrayLike, beta: ArrayLike, order: int = 4
) -> np.ndarray:
    """The series (22) of `finite_kl` in 1 / beta, cut after the cumulant of this order, 2 to 4.

    Raises:
        ConfigError: another order, or as `finite_kl`.
    """
    if order not in (2, 3, 4):
        raise ConfigError(f"order is 2 (the variance), 3 or 4, not {order!r}")
    centred, weights = _centred(rewards, probabilities)
    second, third, fourth = ((weights * centred**k).sum(axis=-1) for k in (2, 3, 4))
    t = 1 / check_beta(beta)
    terms = second * t**2 / 2, third * t**3 / 6, (fourth - 3 * second**2) * t**4 / 24
    return np.asarray(sum(terms[: order - 1]))


def sample_variance(rewards_PG: ArrayLike, scored: ArrayLike | None = None) -> np.ndarray:
    """Unbiased reward variance (P,) of groups of rollouts, (20), divided by n - 1; NaN where n < 2.

    Over 2 beta^2 it is an unbiased estimate of the divergence for normal rewards, (21), and of the
    leading term alone for others. `reward_variance` of the prompt table divides by n.

    Args:
        rewards_PG: (P, G).
        scored: bool (P, G), which rollouts have a reward; all by default.

    Raises:
        ConfigError: rewards of another shape, or a scored one that is not finite.
    """
    centred_PG, scored_PG, count_P = _groups(rewards_PG, scored)
    squares_P = np.square(centred_PG).sum(axis=1, where=scored_PG)
    return np.where(count_P > 1, squares_P / np.maximum(count_P - 1, 1), np.nan)


def sample_kl(rewards_PG: ArrayLike, beta: float, scored: ArrayLike | None = None) -> np.ndarray:
    """Divergence (P,) of the rewards that a group got, each equally likely; NaN where n < 2.

    Biased: too small on average, as log E[e^(r/beta)] is concave in the distribution. As beta grows its
    mean goes to (n-1)/n of the divergence, and for 0/1 rewards to 1 - (1-p)^(n-1) of it as beta goes to
    0: groups without a success give 0. With p = 1/10 and n = 8 these are 0.875 and 0.52.

    Args:
        rewards_PG: (P, G).
        beta: one number, or (P,).
        scored: bool (P, G), which rollouts have a reward; all by default.

    Raises:
        ConfigError: as `sample_variance`, or a beta outside 1e-12..1e12.
    """
    centred_PG, scored_PG, count_P = _groups(rewards_PG, scored)
    weights_PG = scored_PG / np.maximum(count_P, 1)[:, None]
    return np.where(count_P > 1, log_mean_exp(centred_PG / check_beta(beta)[..., None], weights_PG), np.nan)


def _centred(rewards: ArrayLike, probabilities: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    arrays = (np.atleast_1d(np.asarray(numbers, np.float64)) for numbers in (rewards, probabilities))
    values, weights = np.broadcast_arrays(*arrays)
    if not np.isfinite(values).all():
        raise ConfigError("rewards are finite numbers: leave out what could not be scored")
    total = weights.sum(axis=-1, keepdims=True)
    if not ((weights >= 0).all() and (abs(total - 1) < 1e-6).all()):
        raise ConfigError(
            "probabilities are at least 0 and sum to 1 along the last axis: divide by their sum"
        )
    above = values - values.min(axis=-1, keepdims=True)
    weights = weights / total
    return above - (weights * above).sum(axis=-1, keepdims=True), weights


def _groups(rewards_PG: ArrayLike, scored: ArrayLike | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards less the mean of their group, 0 where not scored; which are scored; how many (P,)."""
    rewards_PG = np.asarray(rewards_PG, np.float64)
    scored_PG = np.ones(rewards_PG.shape, np.bool_) if scored is None else np.asarray(scored, np.bool_)
    if rewards_PG.ndim != 2 or scored_PG.shape != rewards_PG.shape:
        raise ConfigError(
            f"rewards have shape {rewards_PG.shape} and scored {scored_PG.shape}: both are (P, G), "
            "a row a group and a column a rollout"
        )
    if not np.isfinite(rewards_PG[scored_PG]).all():
        raise ConfigError("a scored reward is not finite: say in `scored` what could not be scored")
    mean_P, _ = moments(rewards_PG, scored_PG)
    return np.where(scored_PG, rewards_PG - mean_P[:, None], 0.0), scored_PG, scored_PG.sum(axis=1)

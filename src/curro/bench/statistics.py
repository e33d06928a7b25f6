"""Numbers with intervals from few seeds: interquartile means, stratified bootstrap, ratios of rollouts.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (2021): aggregate by
the mean of the middle half of all runs, resample seeds within every task, and ask how probable it is that a
run of one method is better than a run of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import trim_mean

from curro.report.compare import crossing, isotonic

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A number with the percentile interval of its resamples; infinite where a level was not reached."""

    value: float
    low: float
    high: float


def iqm(scores: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over tasks of the interquartile mean of the seeds' scores, (...).

    Levels differ by task: over all runs together the quartiles would leave out whole tasks.

    Args:
        scores: an array (..., S) of the seeds' scores for each of the tasks.
    """
    return np.mean([trim_mean(runs, 0.25, axis=-1) for runs in scores], axis=0)


def probability_of_improvement(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> np.ndarray:
    """How probable a run of ours scores more than one of theirs, ties half; (...), the mean over tasks.

    Args:
        ours, theirs: an array (..., S) of the seeds' scores for each of the same tasks.
    """
    pairs = [(a[..., :, None], b[..., None, :]) for a, b in zip(ours, theirs, strict=True)]
    return np.mean([((a > b) + 0.5 * (a == b)).mean(axis=(-2, -1)) for a, b in pairs], axis=0)


def bootstrap(
    statistic: Callable[..., np.ndarray],
    *groups: Sequence[np.ndarray],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The statistic of the groups, and its interval when seeds are drawn again within every task.

    Resamples in which the statistic is NaN are left out: of rollouts to a level, those in which the runs that
    set the level learnt nothing.

    Args:
        statistic: of as many arguments as there are groups, of any leading axes.
        groups: each an array (S, ...) for every task, whose first axis is the seed.
    """
    rng = np.random.default_rng(seed)
    again = [[runs[rng.integers(len(runs), size=(resamples, len(runs)))] for runs in g] for g in groups]
    # of infinite values no interpolation is a number
    quantiles = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    values = statistic(*again)
    known = values[~np.isnan(values)] if not np.isnan(values).all() else values
    low, high = np.quantile(known, quantiles, method="closest_observation")
    return Interval(float(statistic(*groups)), float(low), float(high))


def rollouts_to_level(x: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Our rollouts to their final level, as a share (...) of theirs; infinite where it was not reached.

    Curves are averaged over seeds and fitted by the nearest non-decreasing one, as `comparison_table` does.
    NaN where they had the level from the start.

    Args:
        x: rollouts (E,) of the evaluations.
        ours, theirs: accuracies (..., S, E), of any numbers of seeds.
    """
    mine, other = ours.mean(axis=-2), theirs.mean(axis=-2)
    pairs = zip(mine.reshape(-1, len(x)), other.reshape(-1, len(x)), strict=True)
    return np.array([_share(x, a, b) for a, b in pairs]).reshape(mine.shape[:-1])


def _share(x: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    fit = isotonic(theirs)
    needed, reached = crossing(x, fit, fit[-1]), crossing(x, isotonic(ours), fit[-1])
    if not needed:
        return np.nan
    return np.inf if reached is None else reached / needed


def geometric_mean(ratios: Sequence[np.ndarray]) -> np.ndarray:
    """Over tasks (...); infinite where a ratio is. NaN is left out, and the mean of nothing else."""
    logs = np.log(np.maximum(ratios, 1e-12))
    known = ~np.isnan(logs)
    with np.errstate(invalid="ignore"):
        return np.exp(np.where(known, logs, 0).sum(axis=0) / known.sum(axis=0))

"""95% intervals: of shares of trials, and of statistics whose few seeds are resampled."""

from __future__ import annotations

import math

import numpy as np

Z95 = 1.959963984540054
"""95 % of a normal distribution lie within so many standard deviations of its mean."""

Interval = tuple[float, float]


def wilson(share: float, trials: float, z: float = Z95) -> Interval:
    """Wilson's score interval of a share (1927), 0 to 1 without trials:

        (share + z2 / 2n -+ z sqrt(share (1 - share) / n + z2 / 4n2)) / (1 + z2 / n),    z2 = z z

    Args:
        share: the share of n trials that succeeded.
        trials: n.
    """
    if not trials:
        return 0.0, 1.0
    weight = z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return (centre - half if share > 0 else 0.0), (centre + half if share < 1 else 1.0)


def agresti_coull(share: float, trials: float) -> Interval:
    """The interval of Agresti and Coull (1998), in [0, 1], as if two more trials had succeeded, two failed.

    Args:
        share: the share of n trials that succeeded.
        trials: n, which may be the effective number of trials of unequal weights.
    """
    centre = (trials * share + 2) / (trials + 4)
    margin = 2 * np.sqrt(centre * (1 - centre) / (trials + 4))
    return max(centre - margin, 0.0), min(centre + margin, 1.0)


def bootstrap_quantiles(seeds: int, degrees: int) -> Interval:
    """Which quantiles of a bootstrap's resamples are the ends of a 95% interval.

    The plain 2.5% and 97.5% are too near to each other if there are few seeds, because the spread of
    resampled means lacks the factor sqrt(n / (n - 1)), and because the normal distribution takes the place of
    Student's. These would give Student's interval for a mean ("expanded percentiles": Hesterberg, "What
    Teachers Should Know About the Bootstrap", arXiv 1411.5279).

    Args:
        seeds: the fewest of any method on any task; 2 or more.
        degrees: of freedom: all of a method's seeds, less one for each of its tasks.
    """
    from scipy.stats import norm as normal
    from scipy.stats import t as student

    outside = float(normal.cdf(-np.sqrt(seeds / (seeds - 1)) * student.ppf(0.975, degrees)))
    return outside, 1 - outside


def bootstrap_interval(values: np.ndarray, seeds: int, degrees: int) -> Interval:
    """The ends of the 95% interval of a statistic, from its values in resamples of the seeds.

    Args:
        values: which may be infinite, of one resample each.
        seeds, degrees: as `bootstrap_quantiles` takes them.
    """
    # to interpolate between infinite values would give NaN
    low, high = np.quantile(values, bootstrap_quantiles(seeds, degrees), method="closest_observation")
    return float(low), float(high)

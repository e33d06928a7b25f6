"""95% intervals: of shares of trials, and of statistics whose few seeds are resampled."""

from __future__ import annotations

import math

import numpy as np

Z95 = 1.959963984540054
"""95 % of a normal distribution lie within so many standard deviations of its mean."""

Interval = tuple[float, float]


def wilson(share: float, trials: float, z: float = Z95) -> Interval:
    """Wilson's score interval of a share (1927), 0 to 1 without trials:

    (share + z2 / 2n -+ z sqrt(share (1 - share) / n + z2 / 4n2)) / (1 + z2 / n),    z2 = z z, n trials
    """
    if not trials:
        return 0.0, 1.0
    weight = z * z / trials
    centre = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return (centre - half if share > 0 else 0.0), (centre + half if share < 1 else 1.0)


def agresti_coull(share: float, trials: float) -> Interval:
    """The interval of Agresti and Coull (1998), in [0, 1], as if two more trials had succeeded, two failed.

    `trials` may be the effective number of trials of unequal weights.
    """
    centre = (trials * share + 2) / (trials + 4)
    margin = 2 * np.sqrt(centre * (1 - centre) / (trials + 4))
    return max(centre - margin, 0.0), min(centre + margin, 1.0)


def ratio_interval(first: float, first_ends: Interval, second: float, second_ends: Interval) -> Interval:
    """The interval of the ratio of two shares that have intervals; the upper end may be infinite.

    With a and b the shares, la, ua, lb and ub the ends of their intervals, and

        low  = la (2a - la) / (a b + sqrt((a b)^2 - la (2a - la) ub (2b - ub)))
        high = (a b + sqrt((a b)^2 - ua (2a - ua) lb (2b - lb))) / (lb (2b - lb))

    Source: "MOVER-R", Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
    standard deviation" (Statistical Methods in Medical Research 2012), its lower end multiplied by its
    conjugate. It takes estimates that are independent; where they have groups in common it is too wide.
    """
    ends = (*first_ends, *second_ends)
    first, second, low, high, second_low, second_high = map(float, (first, second, *ends))
    product = first * second

    def root(end: float, other: float) -> float:
        return math.sqrt(max(product**2 - end * (2 * first - end) * other * (2 * second - other), 0.0))

    largest, least = product + root(low, second_high), second_low * (2 * second - second_low)
    return (
        low * (2 * first - low) / largest if largest > 0 else 0.0,
        (product + root(high, second_low)) / least if least > 0 else math.inf,
    )


def bootstrap_interval(values: np.ndarray, seeds: int, degrees: int) -> Interval:
    """The ends of the 95% interval of a statistic, from its values in resamples of the seeds.

    The quantiles 2.5% and 97.5% are too near to each other if there are few seeds, because the spread of
    resampled means lacks the factor sqrt(n / (n - 1)), and because the normal distribution takes the place of
    Student's. These give Student's interval for a mean ("expanded percentiles": Hesterberg, "What Teachers
    Should Know About the Bootstrap", arXiv 1411.5279).

    Args:
        values: the statistic in each resample; it may be infinite.
        seeds: the fewest of any method on any task; 2 or more.
        degrees: of freedom: all of a method's seeds, less one for each of its tasks.
    """
    from scipy.stats import norm as normal
    from scipy.stats import t as student

    outside = float(normal.cdf(-np.sqrt(seeds / (seeds - 1)) * student.ppf(0.975, degrees)))
    # to interpolate between infinite values would give NaN
    low, high = np.quantile(values, (outside, 1 - outside), method="closest_observation")
    return float(low), float(high)

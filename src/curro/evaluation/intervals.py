"""The interval of an accuracy over problems."""

from __future__ import annotations

import numpy as np

Z95 = 1.959963984540054
"""Of the normal distribution: 95% lie within so many standard deviations."""


def wilson(values_P: np.ndarray, samples: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a mean over problems, with the effective number of problems.

    The problems are taken for a sample of those that could have been asked, so the variance between them is
    what counts, not that between the samples of one problem. With the mean m and the variance s2 of the
    values, the effective number is n = P m (1 - m) / s2: P where every value is 0 or 1, more where several
    samples of a problem make its value more exact, and never more than all samples. Then

        (m + z2 / 2n -+ z sqrt(m (1 - m) / n + z2 / 4n2)) / (1 + z2 / n),    z2 = z z

    which does not shrink to a point where all problems are solved, or none is.

    Wilson, "Probable inference, the law of succession, and statistical inference" (1927); the effective
    number as in Korn and Graubard (1998).

    Args:
        values_P: of each problem, from 0 to 1: the share of its samples that are right, or its pass@k.
        samples: of each problem.

    Returns:
        the ends of the 95% interval (for the default z).
    """
    values = np.asarray(values_P, np.float64)
    mean, variance = values.mean(), values.var()
    spread = mean * (1 - mean)
    n = len(values) * min(spread / variance if variance > 0 else 1.0, samples)
    n = max(n, float(len(values)))
    centre, half = mean + z * z / (2 * n), z * np.sqrt(spread / n + (z / (2 * n)) ** 2)
    return float((centre - half) / (1 + z * z / n)), float((centre + half) / (1 + z * z / n))

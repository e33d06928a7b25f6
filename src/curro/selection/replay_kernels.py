"""The kernel of published replay: what groups teach, in one pass over the batch."""

import numpy as np

from curro.index.compiled import kernel, prefetch

HEAP, SOLVED, UNSOLVED = 0, 1, 2
AHEAD = 16
"""So many prompts before its turn the record of a prompt is asked for."""


@kernel
def learn(records, prompts, mean_P, variance_P, rule, pool_P, omega_P, moved):  # type: ignore[no-untyped-def]
    """Update the records of distinct prompts from their groups; out come their pools and priorities.

    `rule`: weight of the new group, bonus, the reward range, and the largest variance without signal.
    `moved` counts the prompts by the pool they leave and the pool they enter.
    """
    smoothing, bonus, low, high, flat = rule
    for a in range(prompts.size):
        prefetch(records, prompts[min(a + AHEAD, prompts.size - 1)])
        prompt, mean, variance = records[prompts[a]], mean_P[a], variance_P[a]
        known = not np.isnan(prompt.smoothed_mean)
        weight = smoothing if known else 1.0
        gap = mean - prompt.smoothed_mean if known else 0.0
        prompt.smoothed_variance = (
            weight * variance + (1 - weight) * prompt.smoothed_variance + weight * (1 - weight) * (gap * gap)
        )
        prompt.smoothed_mean = mean - (1 - weight) * gap
        above = (prompt.smoothed_mean - low) / (high - low) >= 0.5
        omega_P[a] = prompt.smoothed_variance / (high - low) ** 2 + (bonus if above else 0.0)
        pool = HEAP
        if variance <= flat:
            pool = SOLVED if (mean - low) / (high - low) >= 0.5 else UNSOLVED
        moved[prompt.pool, pool] += 1
        prompt.pool = pool_P[a] = pool


@kernel
def mean_priority(records, in_flight_N, initial, bonus, low, high):  # type: ignore[no-untyped-def]
    """The mean of the finite priorities of the prompts in the heap; NaN where it has none."""
    total, count = 0.0, 0
    for p in range(records.size):
        prompt = records[p]
        if prompt.pool == HEAP and not in_flight_N[p]:
            omega = initial
            if not np.isnan(prompt.smoothed_mean):
                above = (prompt.smoothed_mean - low) / (high - low) >= 0.5
                omega = prompt.smoothed_variance / (high - low) ** 2 + (bonus if above else 0.0)
            if omega < np.inf:
                total += omega
                count += 1
    return total / count if count else np.nan

"""The kernel of published replay: what groups teach, in one pass over the batch."""

import numpy as np

from curro.index.compiled import kernel, part, prefetch

HEAP, SOLVED, UNSOLVED = 0, 1, 2
AHEAD = 16
"""So many prompts before its turn the record of a prompt is asked for."""


@part
def omega(mean, variance, bonus, low, high):  # type: ignore[no-untyped-def]
    """The priority p(1-p), and a bonus where p >= 1/2 (sections 2 and 4.4), in squared reward ranges."""
    above = (mean - low) / (high - low) >= 0.5
    return variance / (high - low) ** 2 + (bonus if above else 0.0)


@kernel
def priorities(records, prompts, initial, bonus, low, high, omega_P):  # type: ignore[no-untyped-def]
    """omega of these prompts; `initial` where a prompt was never observed."""
    for a in range(prompts.size):
        prompt = records[prompts[a]]
        omega_P[a] = initial
        if not np.isnan(prompt.smoothed_mean):
            omega_P[a] = omega(prompt.smoothed_mean, prompt.smoothed_variance, bonus, low, high)


@kernel
def learn(records, prompts, mean_P, variance_P, size_P, rule, pool_P, omega_P, moved):  # type: ignore[no-untyped-def]
    """Update the records of distinct prompts from their groups; out come their pools and priorities.

    `rule`: weight of the new group, bonus, the reward range, and the largest variance without signal.
    `moved` counts the prompts by the pool they leave and the pool they enter.
    """
    smoothing, bonus, low, high, flat = rule
    for a in range(prompts.size):
        prefetch(records, prompts[min(a + AHEAD, prompts.size - 1)])
        prompt, mean, variance = records[prompts[a]], mean_P[a], variance_P[a]
        known = not np.isnan(prompt.smoothed_mean)
        weight, size = smoothing if known else 1.0, size_P[a]
        if known and size != prompt.smoothed_size:
            # groups of other sizes count by their rollouts
            average = smoothing * size + (1 - smoothing) * prompt.smoothed_size
            weight, size = smoothing * size / average, average
        prompt.smoothed_size = size
        gap = mean - prompt.smoothed_mean if known else 0.0
        prompt.smoothed_variance = (
            weight * variance + (1 - weight) * prompt.smoothed_variance + weight * (1 - weight) * (gap * gap)
        )
        prompt.smoothed_mean = mean - (1 - weight) * gap
        omega_P[a] = omega(prompt.smoothed_mean, prompt.smoothed_variance, bonus, low, high)
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
            priority = initial
            if not np.isnan(prompt.smoothed_mean):
                priority = omega(prompt.smoothed_mean, prompt.smoothed_variance, bonus, low, high)
            if priority < np.inf:
                total += priority
                count += 1
    return total / count if count else np.nan


@kernel
def rate_deviation(records, low, high):  # type: ignore[no-untyped-def]
    """The standard deviation of the moving averages of the prompts seen, in reward ranges; NaN for none."""
    count, mean, squares = 0, 0.0, 0.0
    for p in range(records.size):
        rate = (records[p].smoothed_mean - low) / (high - low)
        if not np.isnan(rate):
            count += 1
            gap = rate - mean
            mean += gap / count
            squares += gap * (rate - mean)
    return np.sqrt(squares / count) if count else np.nan

"""Kernels of the fading posterior: what takes groups one by one."""

import numpy as np

from curro.index.compiled import kernel


@kernel
def move_prior(moments, concentration, window, old, size, mean, variance):  # type: ignore[no-untyped-def]
    """Take groups into the prior, in order.

    `moments`: how many visits it has seen, and of rewards the mean, the mean square and the variance within
    a group. `old` is the evidence that a prompt had before.
    """
    visits, centre, square, within = moments
    for a in range(old.size):
        weight = concentration / (concentration + old[a])
        visits += weight
        rate = weight / min(visits, window)
        centre += rate * (mean[a] - centre)
        square += rate * (variance[a] + mean[a] * mean[a] - square)
        within += rate * (variance[a] * size[a] / (size[a] - 1) - within)
    return visits, centre, square, within


@kernel
def extremes(rewards, scored, lowest, highest):  # type: ignore[no-untyped-def]
    """The lowest and the highest scored reward of each group."""
    for p in range(rewards.shape[0]):
        low, high = np.inf, -np.inf
        for g in range(rewards.shape[1]):
            if scored[p, g]:
                low, high = min(low, rewards[p, g]), max(high, rewards[p, g])
        lowest[p], highest[p] = low, high

"""Kernels of the fading posterior: what takes groups one by one."""

import numpy as np

from curro.index.compiled import kernel, part


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


@part
def mixture(mu, t, k, n, m, s):  # type: ignore[no-untyped-def]
    """K, M and T of `FadedPosterior`: a prior mu, t, k and n rollouts of mean m and variance s."""
    total = k + n
    gap = m - mu
    return total, (k * mu + n * m) / total, (k * t + n * s + k * n / total * (gap * gap)) / total


@kernel
def mix(prior, count, mean, variance, prompts, decay, mixed):  # type: ignore[no-untyped-def]
    """`mixture` of each prompt, the columns of `mixed`, for evidence that has faded to `decay`.

    The rows of `prior` are mu, t and k, in one column for all prompts or one for each.
    """
    # the waits for memory overlap where nothing is computed between them
    for a in range(prompts.size):
        mixed[0, a] = count[prompts[a]]
    for a in range(prompts.size):
        prompt, own = prompts[a], a if prior.shape[1] > 1 else 0
        mixed[0, a], mixed[1, a], mixed[2, a] = mixture(
            prior[0, own], prior[1, own], prior[2, own],
            mixed[0, a] * decay[a], np.float64(mean[prompt]), np.float64(variance[prompt]),
        )  # fmt: skip


@kernel
def surprise(prior, strengths, counted, means, variances, prompts, decay, size, mean, floor, spread, misfit):  # type: ignore[no-untyped-def]
    """Variance and squared standardized error, (P, R) each, of group means under R beliefs.

    A belief has a prior, `prior` as in `mix` with the strength in place of k, and a column of `decay`, what
    is left of the evidence `counted`, `means` and `variances`.
    """
    for a in range(prompts.size):
        prompt, own = prompts[a], a if prior.shape[1] > 1 else 0
        n, m, s = counted[prompt], np.float64(means[prompt]), np.float64(variances[prompt])
        for r in range(strengths.size):
            total, centre, one = mixture(prior[0, own], prior[1, own], strengths[r], n * decay[a, r], m, s)
            spread[a, r] = one * (total / size[a] + 1) / (total + 1) + floor
            misfit[a, r] = (mean[a] - centre) * (mean[a] - centre) / spread[a, r]

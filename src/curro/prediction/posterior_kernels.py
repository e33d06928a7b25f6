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
def ages(last_step, prompts, step, age):  # type: ignore[no-untyped-def]
    """Training steps since each prompt's latest visit."""
    for a in range(prompts.size):
        age[a] = step - last_step[prompts[a]]


@kernel
def mix(prior, count, mean, variance, prompts, age, half_life, mixed):  # type: ignore[no-untyped-def]
    """`mixture` of each prompt, the first three columns of `mixed`, for evidence that has faded for `age`.

    The rows of `prior` are mu, t and k, in one column for all prompts or one for each. The fourth column of
    `mixed` is the share of the evidence that is left, 0 where there was none.
    """
    # the waits for memory overlap where nothing is computed between them
    for a in range(prompts.size):
        mixed[0, a] = count[prompts[a]]
    for a in range(prompts.size):
        prompt, own = prompts[a], a if prior.shape[1] > 1 else 0
        mixed[3, a] = np.exp2(-age[a] / half_life) if mixed[0, a] > 0 else 0.0
        mixed[0, a], mixed[1, a], mixed[2, a] = mixture(
            prior[0, own], prior[1, own], prior[2, own],
            mixed[0, a] * mixed[3, a], np.float64(mean[prompt]), np.float64(variance[prompt]),
        )  # fmt: skip


@kernel
def surprise(  # type: ignore[no-untyped-def]
    prior, strengths, half_lives, counted, means, variances, prompts, age, size, mean, floor, losses
):
    """Add to `losses` (R,) twice minus the log likelihood of group means (P,) under R beliefs.

    A belief has a prior, `prior` as in `mix` with the strength in place of k, and a half-life, with which the
    evidence `counted`, `means` and `variances` has faded for `age`.
    """
    beliefs = strengths.size
    decay, spread = np.empty(beliefs), np.empty(beliefs)
    product = np.ones(beliefs)
    for a in range(prompts.size):
        prompt, own = prompts[a], a if prior.shape[1] > 1 else 0
        mu, t = prior[0, own], prior[1, own]
        n, m, s = np.float64(counted[prompt]), np.float64(means[prompt]), np.float64(variances[prompt])
        for back in range(1, beliefs + 1):
            r = beliefs - back
            if back > 1 and half_lives[r] == half_lives[r + 1]:
                decay[r] = decay[r + 1]
            elif back > 1 and 2 * half_lives[r] == half_lives[r + 1]:
                decay[r] = decay[r + 1] * decay[r + 1]
            else:
                decay[r] = np.exp2(-age[a] / half_lives[r])
        for r in range(beliefs):
            total, centre, one = mixture(mu, t, strengths[r], n * decay[r], m, s)
            spread[r] = one * (total / size[a] + 1) / (total + 1) + floor
            losses[r] += (mean[a] - centre) * (mean[a] - centre) / spread[r]
            product[r] *= spread[r]
        # a logarithm for eight: rewards of 1e15 make spreads of 1e30, and the product stays finite
        if a % 8 == 7 or a == prompts.size - 1:
            for r in range(beliefs):
                losses[r] += np.log(product[r])
                product[r] = 1.0


@kernel
def add_evidence(count, mean, variance, prompts, old, size, new_mean, new_variance):  # type: ignore[no-untyped-def]
    """Add groups to the evidence of their prompts, of which `old` rollouts still count."""
    for a in range(prompts.size):
        prompt, new = prompts[a], old[a] + size[a]
        gap = new_mean[a] - np.float64(mean[prompt])
        within = old[a] * np.float64(variance[prompt]) + size[a] * new_variance[a]
        variance[prompt] = (within + old[a] * size[a] / new * (gap * gap)) / new
        mean[prompt] = np.float64(mean[prompt]) + size[a] / new * gap
        count[prompt] = new

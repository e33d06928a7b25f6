"""The kernel of the smoothed advantages: groups one by one, in the order they are reported."""

import numpy as np

from curro.index.compiled import kernel

NONE, LINEAR, CORRECTED = 0, 1, 2
KINDS = {None: NONE, "linear": LINEAR, "corrected": CORRECTED}


@kernel
def smooth(  # type: ignore[no-untyped-def]
    prompts, visits, count, mean, variance, rewards, scored, alpha, kind, uses_current, epsilon, least, flat,
    means, variances, sizes, advantages,
):  # fmt: skip
    """Take groups into the statistics of their prompts, and credit their rollouts by (6).

    `visits` is of each group, 1 at its prompt's first; groups without a scored reward are passed over. An
    `alpha` of 0 is 1 / visits. `kind` is one of the three above; `uses_current` puts S_t in place of S_{t-1}.
    `means`, `variances` and `sizes` are columns of the prompt table; `advantages` are 0 at first.
    """
    for p in range(prompts.size):
        if not count[p]:
            continue
        prompt, first, size = prompts[p], visits[p] == 1, np.float64(count[p])
        a = alpha if alpha > 0 else 1 / visits[p]
        size_before = size if first else sizes[prompt]
        if size_before == size:
            sizes[prompt] = size
        else:
            average = a * size + (1 - a) * size_before
            sizes[prompt] = average
            a = a * size / average
        before = mean[p] if first else means[prompt]
        centre = (1 - a) * before + a * mean[p]
        means[prompt] = centre
        scale = 1.0
        if kind != NONE:
            previous = variance[p] if first else variances[prompt]
            current = (1 - a) * previous + a * variance[p]
            if kind == CORRECTED:
                current += a * (1 - a) * ((mean[p] - before) * (mean[p] - before))
            variances[prompt] = current
            chosen = current if uses_current else previous
            if chosen < least * current:
                chosen = current
            scale = 1.0 if chosen <= flat else np.sqrt(chosen) + epsilon
        for g in range(rewards.shape[1]):
            if scored[p, g]:
                advantages[p, g] = (rewards[p, g] - centre) / scale

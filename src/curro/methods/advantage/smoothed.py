"""PSPO's smoothed advantages: a prompt's own history as baseline and scale."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Advantage
from curro.core.compiled import kernel
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable, flat_variance

VARIANCES = ("corrected", "linear", None)
DEVIATIONS = ("previous", "current")
NONE, LINEAR, CORRECTED = 0, 1, 2
KINDS = {None: NONE, "linear": LINEAR, "corrected": CORRECTED}
_LEAST = 0.01
"""The share of S_t from which S_{t-1} counts as a deviation: advantages are at most ten times as large."""


class Smoothed(Advantage):
    """Each reward less a moving average of its prompt, over a moving standard deviation (ERS).

    Source: "PSPO: Prompt-Level Prioritization and Experience-Weighted Smoothing", equations 3 to 6 and 13.

    At a prompt's t-th visit, with mean m and population variance v of the group's rewards, and a = alpha
    or 1/t:

        M_t = (1 - a) M_{t-1} + a m                                                      (3), (5)
        S_t = (1 - a) S_{t-1} + a v + a (1 - a) (m - M_{t-1})^2      "corrected"              (4)
        S_t = (1 - a) S_{t-1} + a v                                  "linear"                (13)
        A_i = (r_i - M_t) / (sqrt(S_{t-1}) + epsilon)                                         (6)

    The first visit sets M_1 = m and S_1 = v. At the first visit, and where S_{t-1} is less than a hundredth
    of S_t (until now, or lately, all rewards were equal), S_t takes its place: (6) as printed would divide
    by little more than epsilon. Where S_t is 0 too, nothing is divided.

    A group of equal rewards gets advantages of zero only where the prompt's history has the same mean:
    else all its rollouts are pushed up, or down, together.

    Groups of other sizes count by their rollouts: with n of them after visits of n' on the same average, a
    is alpha n / (alpha n + (1 - alpha) n'), which is alpha if sizes are equal. So M and S are as if from the
    rollouts put together, and a group of 3 moves them less than one of 90.

    M, S and n' are the prompt table's columns `ers_mean`, `ers_variance` and `ers_size`.

    Args:
        alpha: weight of the present group, in (0, 1], or "1/n": the mean over all visits.
        variance: "corrected" (4), "linear" (13), or None (`variance=none`): A_i = r_i - M_t, Dr. GRPO's
            form.
        deviation: "previous" as (6) has it; "current" puts S_t in place of S_{t-1}, and then alpha = 1
            is GRPO (`group:divide_by_std=true`), as the paper says of (6).
        epsilon: in units of the reward, from 0.

    Raises:
        ConfigError: an option that is none of these.
    """

    def __init__(
        self,
        *,
        alpha: float | str = 0.99,
        variance: str | None = "corrected",
        deviation: str = "previous",
        epsilon: float = 1e-4,
    ) -> None:
        if alpha != "1/n" and not (isinstance(alpha, float | int) and 0 < alpha <= 1):
            raise ConfigError(f'alpha is in (0, 1], or "1/n", not {alpha!r}')
        if variance not in VARIANCES:
            raise ConfigError(f"variance is corrected, linear or none, not {variance!r}")
        if deviation not in DEVIATIONS:
            raise ConfigError(f"deviation is one of {', '.join(DEVIATIONS)}, not {deviation!r}")
        if not 0 <= epsilon < np.inf:
            raise ConfigError(f"epsilon is a number from 0, not {epsilon}")
        self.alpha, self.variance, self.deviation, self.epsilon = alpha, variance, deviation, epsilon

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.mean_N = table.add("ers_mean", np.float64, np.nan)
        self.size_N = table.add("ers_size", np.float64, 0)
        self.variance_N = self.mean_N
        if self.variance is not None:
            self.variance_N = table.add("ers_variance", np.float64, np.nan)

    def __call__(self, groups: Groups) -> np.ndarray:
        advantages_PG = np.zeros(groups.rewards.shape)
        smooth(
            groups.prompts, self.table["visits"][groups.prompts] + 1, groups.count,
            groups.mean, groups.variance, groups.rewards, groups.scored,
            0.0 if self.alpha == "1/n" else float(self.alpha), KINDS[self.variance],
            self.deviation == "current", float(self.epsilon), _LEAST,
            flat_variance(0.0, self.table.reward_range),
            self.mean_N, self.variance_N, self.size_N, advantages_PG,
        )  # fmt: skip
        return advantages_PG


@kernel
def smooth(  # type: ignore[no-untyped-def]
    prompts, visits, count, mean, variance, rewards, scored, alpha, kind, uses_current, epsilon, least, flat,
    means, variances, sizes, advantages,
):  # fmt: skip
    """Take groups into the statistics of their prompts, and credit their rollouts by (6).

    `visits` counts from 1 at a prompt's first group; groups without a scored reward are passed over. An
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

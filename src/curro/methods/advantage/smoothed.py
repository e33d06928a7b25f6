"""PSPO's smoothed advantages: a prompt's own history as baseline and scale."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Advantage
from curro.core.errors import require
from curro.core.groups import Groups, by_rollouts
from curro.core.prompts import PromptTable

_LEAST = 0.01
"""The share of S_t from which S_{t-1} counts as a deviation: advantages are at most ten times as large."""


class Smoothed(Advantage):
    """Each reward less a moving average of its prompt, over a moving standard deviation (ERS).

    Source: "PSPO: Prompt-Level Prioritization and Experience-Weighted Smoothing", equations 3 to 6 and 13.

    At a prompt's t-th visit, with mean m and population variance v of its rewards, and a = alpha or 1/t:

        M_t = (1 - a) M_{t-1} + a m                                                      (3), (5)
        S_t = (1 - a) S_{t-1} + a v + a (1 - a) (m - M_{t-1})^2      "corrected"              (4)
        S_t = (1 - a) S_{t-1} + a v                                  "linear"                (13)
        A_i = (r_i - M_t) / (sqrt(S_{t-1}) + epsilon)                                         (6)

    The first visit sets M_1 = m and S_1 = v. Then, and where S_{t-1} is less than a hundredth of S_t, S_t
    takes its place: (6) as printed would divide by little more than epsilon. Where S_t is 0 too, nothing is
    divided.

    A group of equal rewards gets advantages of zero only where the prompt's history has the same mean:
    else all its rollouts are pushed up, or down, together.

    Groups of other sizes count by their rollouts (`by_rollouts`): a group of 3 moves M and S less than one of
    90. M, S and the average size are the prompt table's columns `ers_mean`, `ers_variance` and `ers_size`.

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
        is_weight = alpha == "1/n" or (isinstance(alpha, float | int) and 0 < alpha <= 1)
        require(is_weight, "alpha", 'in (0, 1], or "1/n"', alpha)
        require(variance in ("corrected", "linear", None), "variance", "corrected, linear or none", variance)
        require(deviation in ("previous", "current"), "deviation", "previous or current", deviation)
        require(0 <= epsilon < np.inf, "epsilon", "a number from 0", epsilon)
        self.alpha, self.variance, self.deviation, self.epsilon = alpha, variance, deviation, epsilon

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.mean_N = table.add("ers_mean", np.float64, np.nan)
        self.size_N = table.add("ers_size", np.float64, 0)
        if self.variance is not None:
            self.variance_N = table.add("ers_variance", np.float64, np.nan)

    def __call__(self, groups: Groups) -> np.ndarray:
        rows = np.flatnonzero(groups.count)
        prompts, mean, variance = groups.prompts[rows], groups.mean[rows], groups.variance[rows]
        visits, size = self.table["visits"][prompts] + 1, groups.count[rows].astype(np.float64)
        is_first = visits == 1
        weight = 1 / visits if self.alpha == "1/n" else np.full(len(rows), float(self.alpha))
        size_before = np.where(is_first, size, self.size_N[prompts])
        weight, self.size_N[prompts] = by_rollouts(weight, size, size_before)
        mean_before = np.where(is_first, mean, self.mean_N[prompts])
        centre = self.mean_N[prompts] = (1 - weight) * mean_before + weight * mean
        scale = np.ones(len(rows))
        if self.variance is not None:
            previous = np.where(is_first, variance, self.variance_N[prompts])
            current = (1 - weight) * previous + weight * variance
            if self.variance == "corrected":
                current += weight * (1 - weight) * ((mean - mean_before) * (mean - mean_before))
            self.variance_N[prompts] = current
            is_current = (self.deviation == "current") | (previous < _LEAST * current)
            chosen = np.where(is_current, current, previous)
            scale = np.where(self.table.is_flat(chosen), 1.0, np.sqrt(chosen) + self.epsilon)
        advantages_PG = np.zeros(groups.rewards.shape)
        advantages_PG[rows] = (groups.rewards[rows] - centre[:, None]) / scale[:, None]
        return np.where(groups.scored, advantages_PG, 0.0)

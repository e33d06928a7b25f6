"""PSPO's smoothed advantages: a prompt's own history as baseline and scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from curro.advantage.base import Advantage
from curro.errors import ConfigError
from curro.groups import Groups
from curro.prompts import PromptTable

VARIANCES = ("corrected", "linear", None)
DEVIATIONS = ("previous", "current")
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
    is alpha n / (alpha n + (1 - alpha) n'), which is alpha where sizes are equal. So M and S are those of the
    rollouts put together, and a group of 3 moves them less than one of 90.

    M, S and n' are the prompt table's columns `ers_mean`, `ers_variance` and `ers_size`. Groups are taken in
    the order they are reported.

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
        columns = [("ers_mean", np.float64, np.nan), ("ers_size", np.float64, 0)]
        if self.variance is not None:
            columns.append(("ers_variance", np.float64, np.nan))
        table.add_together(*columns)
        self.mean_N, self.size_N = table["ers_mean"], table["ers_size"]
        if self.variance is not None:
            self.variance_N = table["ers_variance"]

    def __call__(self, groups: Groups) -> np.ndarray:
        visits_P = self.table["visits"][groups.prompts] + 1
        rounds = list(_once_each(groups.prompts, np.flatnonzero(groups.count)))
        if len(rounds) == 1 and len(rounds[0]) == len(groups.prompts):
            return self._advantages(groups, visits_P)
        advantages_PG = np.zeros(groups.rewards.shape)
        for turn, rows in enumerate(rounds):
            advantages_PG[rows] = self._advantages(groups.take(rows), visits_P[rows] + turn)
        return advantages_PG

    def _advantages(self, groups: Groups, visits_P: np.ndarray) -> np.ndarray:
        """(6), for distinct prompts at these visits."""
        scale_P = self._smooth(groups, visits_P)
        advantages_PG = groups.rewards - self.mean_N[groups.prompts, None]
        advantages_PG /= scale_P[:, None]
        advantages_PG[~groups.scored] = 0.0
        return advantages_PG

    def _smooth(self, groups: Groups, visits_P: np.ndarray) -> np.ndarray:
        """Update the statistics of distinct prompts at these visits; returns what (6) divides by, (P,)."""
        prompts, first_P = groups.prompts, visits_P == 1
        alpha_P = self._weights(prompts, groups.count, visits_P)
        before_P = np.where(first_P, groups.mean, self.mean_N[prompts])
        self.mean_N[prompts] = (1 - alpha_P) * before_P + alpha_P * groups.mean
        if self.variance is None:
            return np.ones(len(prompts))
        previous_P = np.where(first_P, groups.variance, self.variance_N[prompts])
        current_P = (1 - alpha_P) * previous_P + alpha_P * groups.variance
        if self.variance == "corrected":
            current_P += alpha_P * (1 - alpha_P) * np.square(groups.mean - before_P)
        self.variance_N[prompts] = current_P
        chosen_P = current_P if self.deviation == "current" else previous_P
        chosen_P = np.where(chosen_P < _LEAST * current_P, current_P, chosen_P)
        return np.where(self.table.is_flat(chosen_P), 1.0, np.sqrt(chosen_P) + self.epsilon)

    def _weights(self, prompts: np.ndarray, size_P: np.ndarray, visits_P: np.ndarray) -> np.ndarray:
        """The weight a of each present group of this size; notes the sizes."""
        alpha_P = 1 / visits_P if self.alpha == "1/n" else np.full(len(prompts), self.alpha)
        before_P = np.where(visits_P == 1, size_P, self.size_N[prompts])
        average_P = alpha_P * size_P + (1 - alpha_P) * before_P
        same_P = before_P == size_P
        self.size_N[prompts] = np.where(same_P, size_P, average_P)
        return np.where(same_P, alpha_P, alpha_P * size_P / average_P)


def _once_each(prompts: np.ndarray, left: np.ndarray) -> Iterator[np.ndarray]:
    """The rows `left` in rounds in which no prompt stands twice, first occurrences first."""
    ascending = np.sort(prompts[left])
    if (ascending[1:] > ascending[:-1]).all():
        yield left
        return
    while len(left):
        first = np.sort(np.unique(prompts[left], return_index=True)[1])
        yield left[first]
        left = np.delete(left, first)

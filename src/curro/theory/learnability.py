"""The learnability of a data set, from its prompt table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from curro.prompts import PromptTable
from curro.theory.divergence import reverse_kl

BINS = 20
"""Bins of success rate in a summary, each 1/20 wide and with its lower end."""


def learnability(table: PromptTable, beta: float) -> np.ndarray:
    """Estimated divergence (N,) of every prompt at its latest visit; NaN for prompts not seen yet.

    It is (13) at the success rate on the table's reward range, times the share of p(1-p) that the
    rewards varied by: all of it for rewards at the two ends of the range, where it is the plug-in
    estimate `sample_kl`; right to leading order for others. `beta` is in units of the reward.

    Raises:
        ConfigError: a beta whose ratio to the reward range is outside 1e-12..1e12.
    """
    low, high = table.reward_range
    seen = table["visits"] > 0
    mean, variance = (table[name][seen].astype(np.float64) for name in ("reward_mean", "reward_variance"))
    rate = np.clip(table.success_rate(mean), 1e-6, 1 - 1e-6)
    share = variance / (high - low) ** 2 / (rate * (1 - rate))
    estimate = np.full(table.size, np.nan)
    estimate[seen] = reverse_kl(rate, np.float64(beta) / (high - low)) * share
    return estimate


@dataclass(frozen=True)
class LearnabilitySummary:
    """The learnability of a data set, as far as its prompts have been seen.

    Attributes:
        beta: the temperature, in units of the reward.
        seen: share of prompts seen.
        flat: share of them whose latest group had no variance; NaN where none was seen.
        mean_kl: their mean `learnability` in nats; NaN where none was seen.
        counts: int64 (20,), how many of them have a success rate in [i/20, (i+1)/20); 1 is in the last.
    """

    beta: float
    seen: float
    flat: float
    mean_kl: float
    counts: np.ndarray

    @classmethod
    def of(cls, table: PromptTable, beta: float) -> LearnabilitySummary:
        """The summary of a prompt table.

        Raises:
            ConfigError: as `learnability`.
        """
        seen = table["visits"] > 0
        kl = learnability(table, beta)[seen]
        rate = np.clip(table.success_rate(table["reward_mean"][seen].astype(np.float64)), 0, 1)
        # in the table's float32 a rate of 14/20 is a little less
        bins = np.minimum((rate * BINS + 1e-5).astype(np.int64), BINS - 1)
        some = bool(seen.any())
        return cls(
            beta=float(beta),
            seen=float(seen.mean()),
            flat=float(table.is_flat(table["reward_variance"][seen]).mean()) if some else np.nan,
            mean_kl=float(kl.mean()) if some else np.nan,
            counts=np.bincount(bins, minlength=BINS),
        )

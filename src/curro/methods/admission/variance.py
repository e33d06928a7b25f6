"""Bands on the reward variance, for rewards of any kind."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Gate
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.methods.admission.band import between


class VarianceBand(Gate):
    """Groups whose reward variance lies between two thresholds: a difficulty band for any real rewards.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", section 6.3.

    The variance is what makes a prompt learnable, whatever the distribution of its rewards. It is mean((r -
    mean r)^2) in squared reward ranges, p(1-p) for 0/1 rewards; `variance:0.09` asks of them what
    `band:0.1,0.9,both` asks.

    Args:
        low: admitted from this variance on.
        high: up to this variance; by default without end.
        reward: as of `DifficultyBand`.

    Raises:
        ConfigError: not 0 <= low <= high.
        RewardError: when called, groups that carry no reward of that name.
    """

    def __init__(self, low: float, high: float | None = None, reward: str | None = None) -> None:
        if not 0 <= low <= (np.inf if high is None else high):
            raise ConfigError(f"a variance band needs 0 <= low <= high, not {low} and {high}")
        self.low, self.high, self.reward = low, np.inf if high is None else high, reward

    def __call__(self, groups: Groups) -> np.ndarray:
        _, variance_P, count_P = groups.part(self.reward)
        if self.reward is None:
            low, high = self.table.reward_range
            variance_P = variance_P / (high - low) ** 2
        return (count_P > 0) & between(variance_P, self.low, self.high, "both")

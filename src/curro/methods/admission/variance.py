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

    It is mean((r - mean r)^2) in squared reward ranges, p(1-p) for 0/1 rewards; `variance:0.09` asks of them
    what `band:0.1,0.9,both` asks.

    Args:
        low: admitted from this variance on.
        high: up to this variance; by default without end.

    Raises:
        ConfigError: not 0 <= low <= high.
    """

    def __init__(self, low: float, high: float | None = None) -> None:
        if not 0 <= low <= (np.inf if high is None else high):
            raise ConfigError(f"a variance band needs 0 <= low <= high, not {low} and {high}")
        self.low, self.high = low, np.inf if high is None else high

    def __call__(self, groups: Groups) -> np.ndarray:
        return between(self.table.informativeness(groups.variance), self.low, self.high, "both")

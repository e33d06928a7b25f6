"""What rules share that maximise a total value within bounds on the rollouts of a prompt."""

from __future__ import annotations

import numpy as np

from curro.core.allocation import Allocation
from curro.core.errors import ConfigError


class Bounded(Allocation):
    """Rollouts go where their total value is highest, from `least` to `most` a prompt.

    Attributes:
        value: the name of the kernel in `methods.allocation.kernels` that writes the value of N rollouts.

    Raises:
        ConfigError: not 0 <= least <= most, or most < 1; when called, a budget that the bounds cannot spend.
    """

    value: str

    def __init__(self, *, least: int = 2, most: int = 128) -> None:
        if not 0 <= least <= most or most < 1:
            raise ConfigError(f"least and most are 0 <= least <= most, most from 1, not {least} and {most}")
        self.least, self.most = least, most

    def check(self, prompts: int, budget: int) -> None:
        low, high = self.least * prompts, self.most * prompts
        if not low <= budget <= high:
            raise ConfigError(
                f"{budget} rollouts for {prompts} prompts: the allocation gives each {self.least} to "
                f"{self.most}, so the budget is {low} to {high}; change it, or `least` and `most`"
            )

    def __call__(self, prompts: int, budget: int, successes: np.ndarray, failures: np.ndarray) -> np.ndarray:
        import curro.methods.allocation.kernels as kernels

        value = getattr(kernels, self.value)
        highest = min(self.most, budget - self.least * (prompts - 1))
        width = min(highest, self.least + 4 * max(budget // prompts, 8))
        while True:
            value_PN = np.empty((prompts, width + 1))
            value(successes, failures, value_PN)
            rollouts_P, sure = kernels.solve(value_PN, self.least, budget)
            if sure or width == highest:
                return rollouts_P
            width = min(highest, 2 * width)

"""The same number of rollouts for every prompt."""

from __future__ import annotations

import numpy as np

from curro.core.allocation import Allocation


class Equal(Allocation):
    """Every prompt gets budget / P rollouts; where that is not whole, the first prompts get one more.

    Source: GRPO (Shao et al. 2024).
    """

    needs_belief = False

    def __call__(self, prompts: int, budget: int, successes: np.ndarray, failures: np.ndarray) -> np.ndarray:
        return np.full(prompts, budget // prompts) + (np.arange(prompts) < budget % prompts)

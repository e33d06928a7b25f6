"""The same number of rollouts for every prompt."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Allocation


class Equal(Allocation):
    """Every prompt gets budget / P rollouts; where that is not whole, the first prompts get one more.

    Source: GRPO (Shao et al. 2024).
    """

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        count = len(prompts)
        return np.full(count, budget // count) + (np.arange(count) < budget % count)

"""The same number of rollouts for every prompt."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Allocation


class Equal(Allocation):
    """Every prompt gets budget / P rollouts; where that is not whole, the first prompts get one more.

    Source: GRPO (Shao et al. 2024).
    """

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        return divide_equally(budget, len(prompts))


def divide_equally(budget: int, count: int) -> np.ndarray:
    """So many parts of a budget, int64 (count,); where they are not whole, the first get one more."""
    each, left = divmod(budget, max(count, 1))
    return np.full(count, each) + (np.arange(count) < left)

"""Group-relative advantages: a rollout's reward less the mean of its group."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Advantage
from curro.core.errors import require
from curro.core.groups import Groups


class GroupRelative(Advantage):
    """Each reward less the mean of its group; by option divided by the standard deviation of the group.

    Source: Dr. GRPO, and with the division GRPO (Shao et al. 2024).

    Without the division it is also the advantage of "Prioritized Replay for RL Post-training", section 2. A
    group of equal rewards gets advantages of zero either way.

    Args:
        divide_by_std: divide by the population standard deviation plus `epsilon`.
        epsilon: in units of the reward, from 0.

    Raises:
        ConfigError: a negative or infinite epsilon.
    """

    def __init__(self, *, divide_by_std: bool = False, epsilon: float = 1e-4) -> None:
        require(0 <= epsilon < np.inf, "epsilon", "a number from 0", epsilon)
        self.divide_by_std, self.epsilon = divide_by_std, epsilon

    def __call__(self, groups: Groups) -> np.ndarray:
        advantages_PG = groups.centred()
        if self.divide_by_std:
            # where rewards are equal advantages are 0 already, and epsilon may be too
            deviation_P = np.sqrt(groups.variance) + self.epsilon
            advantages_PG /= np.where(self.table.is_flat(groups.variance), 1.0, deviation_P)[:, None]
        return advantages_PG

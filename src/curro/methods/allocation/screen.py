"""Screen: a few rollouts first, the rest only where they differ."""

from __future__ import annotations

import numpy as np

from curro.core.allocation import Allocation
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable


class Screen(Allocation):
    """A few rollouts of each prompt first; the rest only where their rewards differ.

    Source: "SPEED-RL" (arXiv 2506.09016).

    Args:
        first: rollouts that every prompt gets.
        total: scored rollouts of a prompt whose first ones differ. Rollouts that are not scored are replaced,
            until there are twice as many in all.

    Raises:
        ConfigError: not 2 <= first <= total.
    """

    needs_budget = needs_belief = False

    def __init__(self, *, first: int = 4, total: int = 16) -> None:
        if not 2 <= first <= total:
            raise ConfigError(f"first and total are 2 <= first <= total, not {first} and {total}")
        self.first, self.total = first, total

    def more(self, groups: Groups, table: PromptTable) -> np.ndarray:
        had = groups.scored.shape[1]
        missing_P = np.clip(self.total - groups.count, 0, max(0, 2 * self.total - had))
        return np.where(table.is_flat(groups.variance), 0, missing_P)

"""Probe: look first, then spend the rest of a batch where the first rewards differ."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Allocation
from curro.core.errors import require
from curro.core.groups import Groups
from curro.methods.allocation.equal import divide_equally


class Probe(Allocation):
    """Gives each prompt a few rollouts, and the rest of the batch's budget to groups whose rewards differ.

    When each group of a batch has its first rollouts, those whose rewards differ share what is left of the
    budget equally, up to `most` rollouts each; the others end. Groups go on because they differ, which biases
    their means towards one half; docs/allocation.md says what that does to the gradient.

    Source: after "SPEED-RL" (arXiv 2506.09016), for a whole batch.

    Args:
        first: rollouts that every prompt gets, from 2.
        most: rollouts of a prompt in all.

    Raises:
        ConfigError: not 2 <= first <= most.
    """

    needs_budget, looks_first = False, True

    def __init__(self, *, first: int = 2, most: int = 16) -> None:
        require(2 <= first <= most, "first", f"from 2 to `most`, {most}", first)
        self.first, self.most = first, most

    def more(self, groups: Groups, budget: int) -> np.ndarray:
        # every column is a rollout that each group has had, with a reward or without
        room = max(0, self.most - groups.scored.shape[1])
        further_P = np.zeros(len(groups.prompts), np.int64)
        differing = np.flatnonzero(~self.table.is_flat(groups.variance))
        spent = min(budget, room * len(differing))
        further_P[differing] = divide_equally(spent, len(differing))
        return further_P

"""What an advantage estimator is."""

from __future__ import annotations

import numpy as np

from curro.groups import Groups
from curro.prompts import PromptTable


class Advantage:
    """Base of all estimators: override `__call__`, and `bind` where something is remembered of a prompt.

    What is remembered belongs in columns of the prompt table, so that it is saved and restored with it.

    Attributes:
        takes_levels: whether the prompts may be levels (`curro.data.levels`). A method that compares a group
            with earlier groups of its prompt cannot: every group of a level has a new problem.
    """

    takes_levels = True
    table: PromptTable

    def bind(self, table: PromptTable) -> None:
        """Keep the prompt table; add columns. The port calls it once, before anything else."""
        self.table = table

    def __call__(self, groups: Groups) -> np.ndarray:
        """Advantages (P, G) of finished groups, 0 where a rollout was not scored.

        Groups without a scored rollout come too. The port settles the groups' tickets after this.
        """
        raise NotImplementedError

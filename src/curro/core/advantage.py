"""What an advantage estimator is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.groups import Groups
from curro.core.prompts import PromptTable


class Advantage:
    """Base of all estimators: override `__call__`, and `bind` where something is remembered of a prompt.

    What is remembered of a prompt belongs in columns of the prompt table, so that it is saved and restored
    with it; what is remembered of all of them belongs in `state_dict`.
    """

    table: PromptTable

    def bind(self, table: PromptTable) -> None:
        """Keep the prompt table; add columns. The port calls it once, before anything else."""
        self.table = table

    def __call__(self, groups: Groups) -> np.ndarray:
        """Advantages (P, G) of finished groups, 0 where a rollout was not scored.

        Groups without a scored rollout come too. The port settles the groups' tickets after this.
        """
        raise NotImplementedError

    def signal(self, groups: Groups) -> Groups:
        """These groups with the signal in place of the trained reward, where it is a part of that."""
        parts = self.table.signal_parts
        return groups.by_parts(parts)[1] if parts else groups

    def state_dict(self) -> dict[str, Any]:
        """What the estimator remembers beside the columns; saved only if it is not empty."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""

"""What an admission gate is."""

from __future__ import annotations

import numpy as np

from curro.groups import Groups
from curro.prompts import PromptTable


class Gate:
    """Base of all gates: override `__call__`. A gate decides, and remembers nothing."""

    table: PromptTable

    def bind(self, table: PromptTable) -> None:
        """Keep the prompt table. The port calls it once, before anything else."""
        self.table = table

    def __call__(self, groups: Groups) -> np.ndarray:
        """Which groups are trained on, bool (P,).

        The port rejects groups without a scored rollout. A gate that decides by a part of the reward has to
        reject those in which no rollout has that part.
        """
        raise NotImplementedError


class Everything(Gate):
    """Every group is trained on: plain GRPO.

    Source: GRPO (Shao et al. 2024).
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        return np.ones(len(groups.prompts), np.bool_)

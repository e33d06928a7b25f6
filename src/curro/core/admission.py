"""What an admission gate is."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable


class Gate:
    """Base of all gates: override `__call__`. A gate decides, and remembers nothing.

    Attributes:
        needs_top_up: whether it leaves batches to be topped up with groups that it has rejected; not every
            host does that.
        reward: optional; the part of the reward it decides by, which hosts read to know which numbers to
            report.
    """

    needs_top_up: ClassVar[bool] = False
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


def refuse_top_up(needs_top_up: bool, host: str) -> None:
    """For a host that trains on admitted groups alone: called with the gate's `needs_top_up`."""
    if needs_top_up:
        raise ConfigError(
            f"this admission admits no group by itself, and {host} trains on admitted groups alone: choose "
            "`variance` or `signal`, or train with TRL, whose fill tops its batches up"
        )


class Everything(Gate):
    """Every group is trained on: plain GRPO.

    Source: GRPO (Shao et al. 2024).
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        return np.ones(len(groups.prompts), np.bool_)

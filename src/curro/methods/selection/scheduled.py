"""Scheduled: the data set in its own order, as offline scheduling trains on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Choice, Reason, Selection
from curro.core.checkpoint import check_state
from curro.core.prompts import PromptTable


class Scheduled(Selection):
    """Passes over the data set from its first prompt to its last; one in flight misses its turn.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", section 4.2.

    "Offline scheduling additionally orders the training batches" by difficulty. The order is the data file's:
    `curro curate --order easy-first` writes one.
    """

    orders_everything = True
    remembered = ("position",)

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.position = 0

    def select(self, n: int, step: int) -> Choice:
        parts, missing = [], n
        while missing:
            window = np.arange(self.position, min(self.position + missing, self.table.size))
            parts.append(window[~self.table["in_flight"][window]])
            missing -= len(parts[-1])
            self.position = (self.position + len(window)) % self.table.size
        return Choice.of(np.concatenate(parts), Reason.PRIORITY)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(0 <= self.position < self.table.size, "scheduled/position")

"""The least visited prompts first."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.prompts import PromptTable
from curro.methods.index import MaxPriority


class LeastVisited(Selection):
    """The prompts that were visited least often first.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", algorithm 1.

    Prompts of the same count come in a random order. Every finished group is a visit, admitted or not.
    """

    needs_second_visits = True
    remembered = ("heap",)

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.heap = MaxPriority.from_array(np.zeros(table.size), seed=int(rng.integers(2**63)))

    def select(self, n: int, step: int) -> Choice:
        prompts = self.heap.pop(n)
        return Choice.of(prompts, Reason.by_visits(self.table["visits"][prompts]))

    def observe(self, outcome: Outcome) -> None:
        self.heap.push(outcome.prompts, -(self.table["visits"][outcome.prompts] + 1.0))

    def release(self, prompts: np.ndarray) -> None:
        self.heap.push(prompts, -self.table["visits"][prompts].astype(np.float64))

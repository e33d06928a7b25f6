"""Uniform sampling: every free prompt with the same probability, as RL post-training does by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.prompts import PromptTable
from curro.renumbering import Columns, Renumbering, State
from curro.selection.base import Choice, Reason, Selection
from curro.storage.checkpoint import check_state


class Uniform(Selection):
    """Passes over the data set, each in a new random order; a prompt in flight misses its turn.

    Source: the baseline that every method is compared with. Of levels, none of which is ever left out, every
    pass draws each level once; with shares of sources, a level whose source has its share misses its turn.

    The probabilities are 1 over the free prompts, those of somebody who does not know where the pass is.

    Args:
        replacement: draw every prompt independently of what came before instead of in passes.
    """

    takes_levels = True

    def __init__(self, *, replacement: bool = False) -> None:
        self.replacement = replacement

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.repeats = table.levels is not None
        self.seed, self.epoch, self.position = int(rng.integers(2**63)), 0, 0
        self._shuffle()

    def _shuffle(self) -> None:
        self.order = np.random.default_rng([self.seed, self.epoch]).permutation(self.table.size)

    def select(self, n: int, step: int) -> Choice:
        free = self.table.size - len(self.table.prompts_in_flight)
        taken = np.empty(0, np.int64)
        while len(taken) < n:
            if self.replacement:
                drawn = self.rng.integers(self.table.size, size=n - len(taken))
            else:
                drawn = self.order[self.position : self.position + n - len(taken)]
                self.position += len(drawn)
            if self.open_N is not None:
                drawn = drawn[self.open_N[drawn]]
            if not self.repeats:
                _, first = np.unique(drawn, return_index=True)
                drawn = drawn[np.sort(first)]
                drawn = drawn[~self.table["in_flight"][drawn] & ~np.isin(drawn, taken)]
            taken = np.concatenate([taken, drawn])
            if not self.replacement and self.position == self.table.size:
                self.epoch, self.position = self.epoch + 1, 0
                self._shuffle()
        if self.repeats:
            count = self.table.size if self.open_N is None else np.count_nonzero(self.open_N)
            return Choice.of(taken, Reason.UNIFORM, 1 / count)
        return Choice.of(taken, Reason.UNIFORM, 1 / np.arange(free, free - n, -1))

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        return np.ones(len(choice.prompts))

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def renumbered(self, state: State, columns: Columns, rows: Renumbering) -> State:
        """With other rows a new pass begins, because the order of the saved one is of other numbers."""
        return {**state, "epoch": state["epoch"] + 1, "position": 0}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        is_position = 0 <= state["position"] < self.table.size and state["epoch"] >= 0
        check_state(is_position, "uniform", "is at no position of a pass")
        self.seed, self.epoch, self.position = state["seed"], state["epoch"], state["position"]
        self._shuffle()

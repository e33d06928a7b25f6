"""Uniform sampling: every free prompt with the same probability, as RL post-training does by default."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from curro.core.bases import Choice, Reason, Selection
from curro.core.checkpoint import check_state
from curro.core.prompts import PromptTable

RANKS = 16
"""Number of passes whose random orders are cached when sources have passes of their own."""


def _order(seed: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(size)


@lru_cache(RANKS)
def _ranks(seed: int, epoch: int, size: int) -> np.ndarray:
    return np.argsort(_order(seed, epoch, size))


class Uniform(Selection):
    """Passes over the data set, each in a new random order; a prompt in flight misses its turn.

    Source: the baseline that every method is compared with. With shares of sources, each source has passes of
    its own. The probabilities are 1 over the free prompts, without knowledge of the pass.
    """

    remembered: tuple[str, ...] = ("seed", "epoch", "position")

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.seed, self.epoch, self.position = int(rng.integers(2**63)), 0, 0
        self._shuffle()
        # how many passes each prompt has been in, where sources have shares and so passes of their own
        self.turns_N: np.ndarray | None = None
        if table.has_shares:
            self.turns_N = table.add("uniform_turns", np.int32, 0)
            self.place_N = np.empty(table.size, np.int64)
            self._place(self.turns_N, np.arange(table.size))

    def _shuffle(self) -> None:
        self.order = _order(self.seed, self.epoch, self.table.size)

    def _next(self, most: int) -> np.ndarray:
        """The next prompts in turn, at least one and at most so many."""
        if self.turns_N is not None:
            return self._next_of_sources(self.turns_N, most)
        drawn = self.order[self.position : self.position + most]
        self.position += len(drawn)
        if self.position == self.table.size:
            self.epoch, self.position = self.epoch + 1, 0
            self._shuffle()
        return drawn

    def _next_of_sources(self, turns_N: np.ndarray, most: int) -> np.ndarray:
        """The free prompts that have been in the fewest passes, in the order of their pass."""
        free = np.flatnonzero(~self.table["in_flight"])
        place_F = self.place_N[free]
        first = np.argpartition(place_F, most - 1)[:most] if most < len(free) else np.arange(len(free))
        drawn = free[first[np.argsort(place_F[first])]]
        turns_N[drawn] += 1
        self._place(turns_N, drawn)
        return drawn

    def _place(self, turns_N: np.ndarray, prompts: np.ndarray) -> None:
        """Note where these prompts come in the sequence of all passes."""
        turn_P = turns_N[prompts]
        for epoch in np.unique(turn_P).tolist():
            moved = prompts[turn_P == epoch]
            self.place_N[moved] = epoch * self.table.size + _ranks(self.seed, epoch, self.table.size)[moved]

    def select(self, n: int, step: int) -> Choice:
        free = self.table.size - len(self.table.prompts_in_flight)
        taken = np.empty(0, np.int64)
        while len(taken) < n:
            drawn = self._next(n - len(taken))
            drawn = drawn[~self.table["in_flight"][drawn] & ~np.isin(drawn, taken)]
            taken = np.concatenate([taken, drawn])
        return Choice.of(taken, Reason.UNIFORM, 1 / np.arange(free, free - n, -1))

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        return np.ones(len(choice.prompts))

    def take_back(self, choice: Choice) -> None:
        if self.turns_N is not None:
            self.turns_N[choice.prompts] -= 1
            self._place(self.turns_N, choice.prompts)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        check_state(0 <= self.position < self.table.size and self.epoch >= 0, "uniform/position")
        self._shuffle()
        if self.turns_N is not None:
            check_state((self.turns_N >= 0).all(), "table/uniform_turns")
            self._place(self.turns_N, np.arange(self.table.size))

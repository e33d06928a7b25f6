"""GRESO: prompts whose latest groups had no signal are skipped, the more often the longer that lasts.

Tested with the port alone: worked by hand, resumed, in any order of feedback (tests/contrib). On the lab's
hard pools it ends where uniform sampling does (0.313 against 0.316, two seeds; benchmarks/results/tables.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason
from curro.core.checkpoint import check_state
from curro.core.errors import require
from curro.core.prompts import PromptTable
from curro.methods.selection.uniform import Uniform

_STEP, _LEAST, _MOST = 0.01, 0.05, 0.95
_FLAT, _FLOOR = 0.25, 0.01  # the share of groups without signal that is aimed at; the least probability


class Greso(Uniform):
    """Passes over the data set in random order that skip prompts whose latest groups had no signal.

    Source: "Act Only When It Pays" (GRESO, arXiv 2506.02177).

    A prompt whose last z groups all had no signal is taken with probability max(q^z, 0.01). q is one number
    for prompts that were solved last and one for the others. After each step each of them falls by
    0.01 where more than 1/12 of the step's groups were solved (1/6 unsolved), and else rises by 0.01, in
    [0.05, 0.95].

    Args:
        start: q at first.

    Raises:
        ConfigError: start outside [0.05, 0.95].
    """

    needs_second_visits = True
    remembered = (*Uniform.remembered, "keep_2", "groups_3", "step")

    def __init__(self, *, start: float = 0.5) -> None:
        super().__init__()
        require(_LEAST <= start <= _MOST, "start", f"in [{_LEAST}, {_MOST}]", start)
        self.start = start

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.run_N = table.add("greso_run", np.int16, 0)
        self.solved_N = table.add("greso_solved", np.bool_, False)
        self.keep_2 = np.full(2, self.start)
        self.groups_3 = np.zeros(3, np.int64)
        self.step = -1

    def select(self, n: int, step: int) -> Choice:
        if step > self.step:
            self._adapt()
            self.step = step
        taken, looks = np.empty(0, np.int64), []
        while len(taken) < n:
            drawn = self._next(n - len(taken))
            looks.append(drawn)
            goes = self.rng.random(len(drawn)) < self._chance(drawn)
            free = ~self.table["in_flight"][drawn] & ~np.isin(drawn, taken)
            taken = np.concatenate([taken, drawn[goes & free]])
        self._looks = np.sort(np.concatenate(looks))
        return Choice.of(taken, Reason.by_visits(self.table["visits"][taken]))

    def uniform_weights(self, choice: Choice) -> np.ndarray:
        """A prompt that came up L times in the call was taken with the probability 1 - (1 - chance)^L."""
        first, end = (np.searchsorted(self._looks, choice.prompts, side) for side in ("left", "right"))
        return 1 / (1 - (1 - self._chance(choice.prompts)) ** (end - first))

    def _chance(self, prompts: np.ndarray) -> np.ndarray:
        """The probability (P,) of not being skipped."""
        keep_P = self.keep_2[self.solved_N[prompts].astype(np.int64)]
        return np.maximum(keep_P ** self.run_N[prompts], _FLOOR)

    def observe(self, outcome: Outcome) -> None:
        prompts, flat_P = outcome.prompts, self.table.is_flat(outcome.variance)
        solved_P = self.table.is_solved(outcome.mean, outcome.variance)
        run_P = np.minimum(self.run_N[prompts] + 1, np.iinfo(np.int16).max - 1)
        self.run_N[prompts], self.solved_N[prompts] = np.where(flat_P, run_P, 0), solved_P
        self.groups_3 += [(flat_P & ~solved_P).sum(), solved_P.sum(), len(prompts)]

    def _adapt(self) -> None:
        """Follow the shares of the last step's groups that had no signal: unsolved and solved ones."""
        *flat_2, groups = self.groups_3
        if groups:
            too_many_2 = np.array(flat_2) / groups > _FLAT * np.array([2, 1]) / 3
            self.keep_2 = np.clip(self.keep_2 + np.where(too_many_2, -_STEP, _STEP), _LEAST, _MOST)
        self.groups_3[:] = 0

    def metrics(self) -> dict[str, float]:
        return {"greso/keep_unsolved": float(self.keep_2[0]), "greso/keep_solved": float(self.keep_2[1])}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        keep_2, groups_3 = self.keep_2, self.groups_3
        is_probability = keep_2.shape == (2,) and (keep_2 >= _LEAST).all() and (keep_2 <= _MOST).all()
        check_state(is_probability, "greso/keep")
        check_state(groups_3.shape == (3,) and (groups_3 >= 0).all(), "greso/groups")
        check_state((self.run_N >= 0).all(), "table/greso_run")

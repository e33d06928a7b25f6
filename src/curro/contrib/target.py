"""Prompts near a target difficulty that moves: by the rewards, or by a schedule.

Tested with the port alone (tests/contrib). With length as the difficulty AdaRFT ends at 0.330 and E2H at
0.259 on the lab's hard pools, uniform sampling at 0.316 (two seeds).
"""

from __future__ import annotations

import sys
from decimal import Decimal
from math import cos, isfinite, pi
from numbers import Real
from typing import Any

import numpy as np

from curro.core.bases import Choice, Outcome, Reason, Selection
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError, require
from curro.core.prompts import PromptTable

MOVES = ("reward", "linear", "cosine")


class Target(Selection):
    """Prompts whose difficulty is nearest a target, which follows the rewards or a schedule.

    Source: AdaRFT (arXiv 2504.05520); with a schedule "E2H Reasoner" (arXiv 2506.06632).

    Difficulties are scaled to 0 for the easiest prompt and 1 for the hardest. The target moves

        reward     T <- clip(T + rate tanh(sensitivity (R - goal)), 0, 1) after each step with mean success R
        linear     from `start` to `end` over `steps` training steps
        cosine     likewise, along half a period of a cosine

    Args:
        column: a column of the data set, with a number that is larger for harder prompts.
        move: how the target moves.
        start, end: the target at first, and at the end of a schedule.
        steps: how long a schedule is.
        rate, sensitivity, goal: AdaRFT's eta, alpha and beta, with eta on the scale of 0 to 1.
        width: with a width prompts are drawn in proportion to exp(-(d - T)^2 / (2 width^2)); with 0 the
            nearest are taken.

    Raises:
        ConfigError: an option that is none of these; no such column, or one that is not of numbers.
    """

    remembered = ("target", "success_2", "step", "seed")

    def __init__(
        self,
        column: str,
        *,
        move: str = "reward",
        start: float = 0.0,
        end: float = 1.0,
        steps: int = 100,
        rate: float = 0.5,
        sensitivity: float = 2.0,
        goal: float = 0.5,
        width: float = 0.0,
    ) -> None:
        require(move in MOVES, "move", f"one of {', '.join(MOVES)}", move)
        for name, share in (("start", start), ("end", end), ("goal", goal)):
            require(0 <= share <= 1, name, "in [0, 1]", share)
        require(steps >= 1, "steps", "a number from 1", steps)
        require(rate >= 0, "rate", "a number from 0", rate)
        require(sensitivity > 0, "sensitivity", "above 0", sensitivity)
        require(width >= 0, "width", "a number from 0", width)
        self.column, self.move, self.start, self.end, self.steps = column, move, start, end, steps
        self.rate, self.sensitivity, self.goal = rate, sensitivity, goal
        self.width = width

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        values = table.values(self.column)
        if not all(isinstance(value, Real | Decimal) and isfinite(value) for value in values):
            raise ConfigError(
                f"the column {self.column!r} is no difficulty: it has values that are no numbers"
            )
        value_N = np.array(values, np.float64)
        self.difficulty_N = (value_N - value_N.min()) / (np.ptp(value_N) or 1.0)
        self.target = self.start
        self.success_2 = np.zeros(2)  # the sum of success rates of this step, and their number
        self.step = -1
        self.seed = int(rng.integers(2**63))

    def select(self, n: int, step: int) -> Choice:
        if step > self.step:
            self._move(step)
            self.step = step
        free = np.flatnonzero(~self.table["in_flight"])
        chosen = free[np.argsort(self._order()[free], kind="stable")[:n]]
        return Choice.of(chosen, Reason.PRIORITY)

    def _order(self) -> np.ndarray:
        """Numbers (N,), the smallest to be chosen first: the same all through a step."""
        rng = np.random.default_rng([self.seed, self.step])
        away_N = np.abs(self.difficulty_N - self.target)
        if self.width:
            # the smallest of exponential variables over their weights are draws without replacement
            random_N = np.log(rng.exponential(size=len(away_N)))
            # the square of a small width may be 0
            away_N = random_N + away_N**2 / max(2 * self.width**2, sys.float_info.min)
        else:
            random_N = rng.random(len(away_N))
        ranks_N = np.empty(len(away_N))
        ranks_N[np.lexsort([random_N, away_N])] = np.arange(len(away_N))
        return ranks_N

    def _move(self, step: int) -> None:
        if self.move == "reward":
            total, count = self.success_2
            mean = total / count if count else self.goal
            moved = self.target + self.rate * np.tanh(self.sensitivity * (mean - self.goal))
            self.target = float(np.clip(moved, 0.0, 1.0))
            self.success_2[:] = 0.0
            return
        done = min(step / self.steps, 1.0)
        done = done if self.move == "linear" else (1 - cos(pi * done)) / 2
        self.target = self.start + (self.end - self.start) * done

    def observe(self, outcome: Outcome) -> None:
        # in order of prompt, so that sums do not depend on the order in which groups came in
        order = np.argsort(outcome.prompts)
        for rate in self.table.success_rate(outcome.mean[order]).tolist():
            self.success_2 += rate, 1

    def metrics(self) -> dict[str, float]:
        return {"target/difficulty": self.target}

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        is_finite = self.success_2.shape == (2,) and np.isfinite(self.success_2).all()
        check_state(0 <= self.target <= 1 and is_finite, "target")

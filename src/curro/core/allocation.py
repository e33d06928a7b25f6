"""What an allocation rule is."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.errors import ConfigError


class Allocation:
    """Base of all rules: override `__call__`, or `initial`. A rule decides, and remembers nothing.

    Attributes:
        needs_budget: whether `__call__` divides a budget. False: every prompt gets what `initial` says.
        first: the most rollouts that a prompt gets where there is no budget.
        needs_belief: whether `__call__` looks at `successes` and `failures`; else they are empty.
    """

    needs_budget = True
    needs_belief = True
    first = 0

    def check(self, prompts: int, budget: int) -> None:
        """Refuse a budget that cannot be spent on so many prompts; the port asks before it selects.

        Raises:
            ConfigError: it cannot.
        """
        if budget < prompts:
            raise ConfigError(f"{budget} rollouts for {prompts} prompts: each needs at least one")

    def __call__(self, prompts: int, budget: int, successes: np.ndarray, failures: np.ndarray) -> np.ndarray:
        """How many rollouts each of P prompts gets, int64 (P,), from 0; they sum to `budget`.

        Args:
            prompts: P.
            budget: rollouts, from 1.
            successes, failures: float64 (P,), above 0. What is believed of a prompt's success rate p on the
                scale of the reward range is the distribution Beta(successes, failures).
        """
        raise NotImplementedError

    def initial(self, reasons: np.ndarray) -> np.ndarray:
        """How many rollouts each prompt gets where there is no budget, int64 (P,).

        Args:
            reasons: uint8 (P,), why each was chosen (`curro.Reason`).
        """
        return np.full(len(reasons), self.first, np.int64)


def checked(rollouts: Any, prompts: int, budget: int, rule: Allocation) -> np.ndarray:
    """What a rule gave, if it is an allocation of the budget."""
    numbers_P = np.asarray(rollouts)
    if (
        numbers_P.shape != (prompts,)
        or numbers_P.dtype.kind not in "iu"
        or numbers_P.min() < 0
        or numbers_P.sum() != budget
    ):
        raise ConfigError(
            f"{type(rule).__qualname__} allocated {numbers_P!r:.80}: {prompts} whole numbers from 0 that sum "
            f"to {budget} were asked for"
        )
    return numbers_P.astype(np.int64)

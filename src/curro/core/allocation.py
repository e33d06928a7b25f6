"""What an allocation rule is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.core.selection import Selection


class Allocation:
    """Base of all rules: override `__call__`, or `initial` and `more` if no budget is divided at first.

    Attributes:
        needs_budget: whether `__call__` divides a budget. False: every prompt gets what `initial` says.
        looks_first: whether `more` gives further rollouts to groups that have their first rewards.
        first: the most rollouts that a prompt gets if there is no budget.
    """

    needs_budget = True
    looks_first = False
    first = 0
    table: PromptTable
    selection: Selection

    def bind(self, table: PromptTable, selection: Selection) -> None:
        """Keep the prompt table and the selection, which is bound already; add columns."""
        self.table, self.selection = table, selection

    def check(self, prompts: int, budget: int) -> None:
        """Refuse a budget that cannot be spent on so many prompts; the port asks before it selects.

        Raises:
            ConfigError: it cannot.
        """
        if budget < prompts:
            raise ConfigError(f"{budget} rollouts for {prompts} prompts: each needs at least one")

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        """Divide a budget of rollouts among chosen prompts (P,): int64 (P,) from 0, which sum to `budget`."""
        raise NotImplementedError

    def initial(self, reasons: np.ndarray) -> np.ndarray:
        """How many rollouts each prompt gets if there is no budget, int64 (P,).

        Args:
            reasons: uint8 (P,), why each was chosen (`curro.Reason`).
        """
        return np.full(len(reasons), self.first, np.int64)

    def more(self, groups: Groups, budget: int) -> np.ndarray:
        """Divide a budget of further rollouts among open groups: int64 (P,), of at most `budget` in all.

        It is asked where `looks_first`, of all groups of a batch that have their first rollouts.

        Args:
            groups: the signal's rewards so far.
            budget: rollouts, from 0.
        """
        return np.zeros(len(groups.prompts), np.int64)

    def observe(self, outcome: Groups) -> None:
        """Learn from finished groups, before the prompt table notes their visits."""

    def state_dict(self) -> dict[str, Any]:
        """What the rule remembers beside the prompt table."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; the prompt table has been restored before."""


def checked(
    rollouts: Any, prompts: int, budget: int, rule: Allocation, *, spends_all: bool = True
) -> np.ndarray:
    """Check that a rule divided the budget, all of it or at most that, and return int64 (P,)."""
    numbers_P = np.asarray(rollouts)
    is_division = (
        numbers_P.shape == (prompts,) and numbers_P.dtype.kind in "iu" and numbers_P.min(initial=0) >= 0
    )
    total = int(numbers_P.sum()) if is_division else -1
    if not (total == budget or (not spends_all and 0 <= total < budget)):
        raise ConfigError(
            f"{type(rule).__qualname__} allocated {numbers_P!r:.80}: {prompts} whole numbers from 0 that sum "
            f"to {'' if spends_all else 'at most '}{budget} were asked for"
        )
    return numbers_P.astype(np.int64)


def refuse_looking_first(rule: Allocation, host: str) -> None:
    """Refuse a rule that looks at first rewards, for a host that does not ask it (`Curriculum.more`)."""
    if rule.looks_first:
        raise ConfigError(
            f"this allocation looks at the first rewards of a batch, and {host} does not ask it again: leave "
            "it out, choose knapsack, or train with TRL or the filler"
        )

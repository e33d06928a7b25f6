"""What an allocation rule is."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable


class Allocation:
    """Base of all rules: override `__call__`, or `more`. A rule decides, and remembers nothing.

    Attributes:
        needs_budget: whether `__call__` divides a budget. False: every prompt gets what `initial` says, and
            `more` says which groups go on.
        first: the most rollouts that a prompt gets at first, where there is no budget.
        keep: how many rollouts of a group are trained on at most; None: all. See `kept`.
        credits_kept_alone: whether advantages follow from the kept rollouts alone; False: from all.
        needs_belief: whether `__call__` looks at `successes` and `failures`; else they are empty.
    """

    needs_budget = True
    needs_belief = True
    first = 0
    keep: int | None = None
    credits_kept_alone = False

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
        """How many rollouts each prompt gets at first where there is no budget, int64 (P,).

        Args:
            reasons: uint8 (P,), why each was chosen (`curro.Reason`).
        """
        return np.full(len(reasons), self.first, np.int64)

    def more(self, groups: Groups, table: PromptTable) -> np.ndarray:
        """How many further rollouts each of these unfinished groups is to get, int64 (P,); 0: it is finished.

        Args:
            groups: all rollouts so far.
            table: the prompt table, for `is_flat` and `success_rate`.
        """
        return np.zeros(len(groups.prompts), np.int64)

    def kept(self, groups: Groups, table: PromptTable) -> np.ndarray:
        """Which rollouts of these finished groups are trained on, bool (P, G).

        Where `keep` is a number these are at most so many of each group, half of them successes where there
        are enough, the first ones of each kind.
        """
        if self.keep is None:
            return np.ones(groups.rewards.shape, np.bool_)
        right_PG = successes(groups, table)
        wrong_PG = groups.scored & ~right_PG
        right_P, wrong_P = right_PG.sum(axis=1), wrong_PG.sum(axis=1)
        most_P = np.maximum(self.keep - self.keep // 2, self.keep - wrong_P)
        taken_P = np.minimum(right_P, most_P)
        first_right_PG = right_PG & (right_PG.cumsum(axis=1) <= taken_P[:, None])
        return first_right_PG | wrong_PG & (wrong_PG.cumsum(axis=1) <= (self.keep - taken_P)[:, None])


def successes(groups: Groups, table: PromptTable) -> np.ndarray:
    """bool (P, G), the rollouts with a reward above the middle of the reward range."""
    return (table.success_rate(groups.rewards) > 0.5) & groups.scored


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

"""How a budget of rollouts is divided between the prompts of a draw, by the curriculum's rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.allocation import Allocation, checked
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.core.selection import Choice, Selection
from curro.methods.prediction.levels import LevelPosterior
from curro.methods.prediction.posterior import FadedPosterior


class BudgetDivision:
    """A rule, and what is believed of the prompts where the rule asks for it.

    Args:
        rule: divides the budget.
        selection: has chosen the prompts, and may have beliefs of its own.
        table: the prompt table.
    """

    def __init__(self, rule: Allocation, selection: Selection, table: PromptTable) -> None:
        self.rule, self.selection = rule, selection
        self.beliefs: Beliefs | None = None
        if rule.needs_belief:
            self.beliefs = Beliefs(selection, table)

    def divide(self, choice: Choice, step: int, budget: int | None) -> tuple[Choice, np.ndarray]:
        """The prompts that get rollouts, and how many each gets, int64 (P,); 0 where the host decides.

        The selection is told of chosen prompts that get none: they are free again.
        """
        if budget is None:
            return choice, self.rule.initial(choice.reasons)
        prompts = choice.prompts
        belief = (np.empty(0), np.empty(0)) if self.beliefs is None else self.beliefs.of(prompts, step)
        division = self.rule(len(prompts), budget, *belief)
        rollouts_P = checked(division, len(prompts), budget, self.rule)
        if rollouts_P.all():
            return choice, rollouts_P
        self.selection.release(prompts[rollouts_P == 0])
        return choice.take(rollouts_P > 0), rollouts_P[rollouts_P > 0]

    def observe(self, outcome: Groups) -> None:
        """Learn from finished groups; before the prompt table notes their visits."""
        if self.beliefs is not None:
            self.beliefs.observe(outcome)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.beliefs is None else self.beliefs.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.beliefs is not None:
            self.beliefs.load_state_dict(state)


class Beliefs:
    """The selection's own beliefs or, of one that has none, those of a posterior of the rule's own.

    A posterior, not a point estimate: eight failures in eight rollouts mean a success rate that is probably
    low, not one of 0.

    Args:
        selection: `Selection.belief` is asked where `Selection.has_belief`.
        table: the prompt table, which gets the posterior's columns where there is one.
    """

    def __init__(self, selection: Selection, table: PromptTable) -> None:
        self.selection = selection
        self.posterior: FadedPosterior | LevelPosterior | None = None
        if not selection.has_belief:
            self.posterior = FadedPosterior() if table.levels is None else LevelPosterior()
            self.posterior.bind(table)

    def of(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Successes and failures (P,), above 0, of the Beta distribution of each prompt's success rate."""
        if self.posterior is None:
            return self.selection.belief(prompts, step)
        self.posterior.learn()
        return self.posterior.belief(prompts, step)

    def observe(self, outcome: Groups) -> None:
        """Learn from finished groups; before the prompt table notes their visits."""
        if self.posterior is not None:
            self.posterior.observe(outcome)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.posterior is None else self.posterior.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.posterior is not None:
            self.posterior.load_state_dict(state)

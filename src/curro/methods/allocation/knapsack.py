"""Knapsack: rollouts go to the prompts most likely to make a gradient that teaches something new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.bases import Allocation, Selection
from curro.core.compiled import kernel
from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.methods.prediction.posterior import FadedPosterior


class Knapsack(Allocation):
    """Divides the budget so that as many groups as possible have a gradient that is worth much.

    It maximises, exactly, the sum over prompts of E[(1 - p^N - (1-p)^N) p (1-p)^2] within bounds on N.
    Here 1 - p^N - (1-p)^N is the probability that N rollouts have both outcomes,
    so that the group has a gradient; p (1-p)^2 is what that gradient is worth, p(1-p) times the room 1-p that
    is left above. The paper puts in the success rate that it saw last; here the expectation is over the
    selection's posterior of p, or over a posterior of the rule's own where the selection has none. Eight
    failures of eight mean a success rate that is probably low, not one of 0.

    Source: "Knapsack RL" (arXiv 2509.25849).

    Args:
        least, most: rollouts of a prompt; with 0 a prompt may get none, although it was chosen.

    Raises:
        ConfigError: not 0 <= least <= most, or most < 1; when called, a budget that the bounds cannot spend.
    """

    def __init__(self, *, least: int = 2, most: int = 128) -> None:
        if not 0 <= least <= most or most < 1:
            raise ConfigError(f"least and most are 0 <= least <= most, most from 1, not {least} and {most}")
        self.least, self.most = least, most

    def check(self, prompts: int, budget: int) -> None:
        low, high = self.least * prompts, self.most * prompts
        if not low <= budget <= high:
            raise ConfigError(
                f"{budget} rollouts for {prompts} prompts: the allocation gives each {self.least} to "
                f"{self.most}, so the budget is {low} to {high}; change it, or `least` and `most`"
            )

    def bind(self, table: PromptTable, selection: Selection) -> None:
        super().bind(table, selection)
        self.own: FadedPosterior | None = None
        if selection.posterior is None:
            self.own = FadedPosterior()
            self.own.bind(table)

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        posterior = self.own or self.selection.posterior
        posterior.learn()
        successes, failures = posterior.belief(prompts, step)
        return self.divide(successes, failures, budget)

    def divide(self, successes: np.ndarray, failures: np.ndarray, budget: int) -> np.ndarray:
        """The division (P,) that is best where success rates have these Beta distributions, (P,) each."""
        highest = min(self.most, budget - self.least * (len(successes) - 1))
        value_PN = np.empty((len(successes), highest + 1))
        both_outcomes(successes, failures, value_PN)
        return solve(value_PN, self.least, budget)

    def observe(self, outcome: Groups) -> None:
        if self.own is not None:
            self.own.observe(outcome)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.own is None else self.own.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.own is not None:
            self.own.load_state_dict(state)


@kernel
def both_outcomes(a_P, b_P, value_PN):  # type: ignore[no-untyped-def]
    """E[(1 - p^N - (1-p)^N) p (1-p)^2] under Beta(a, b) for N = 0, 1, ...; 0 for N = 0."""
    for i in range(a_P.size):
        a, b = a_P[i], b_P[i]
        total = a + b
        worth = a * b * (b + 1) / (total * (total + 1) * (total + 2))
        all_right, all_wrong = worth, worth
        value_PN[i, 0] = 0.0
        for n in range(1, value_PN.shape[1]):
            # E[p^(n+1) (1-p)^2] and E[p (1-p)^(n+2)] from those of n - 1
            scale = 1.0 / (total + n + 2)
            all_right *= (a + n) * scale
            all_wrong *= (b + n + 1) * scale
            value_PN[i, n] = worth - all_right - all_wrong


@kernel
def solve(value_PN, least, budget):  # type: ignore[no-untyped-def]
    """The N (P,) from `least` that sum to `budget` and have the highest total value, int64.

    Dynamic programming, because values are not concave: a first rollout alone has no gradient. Row i of
    `chosen` has the N of prompt i in the best division of every smaller budget among the prompts up to i.
    """
    count, most = value_PN.shape[0], value_PN.shape[1] - 1
    chosen = np.zeros((count, budget + 1), np.int32)
    best = np.full(budget + 1, -np.inf)
    best[0] = 0.0
    for i in range(count):
        before, best = best, np.full(budget + 1, -np.inf)
        for spent in range(least * (i + 1), min(budget, most * (i + 1)) + 1):
            for n in range(least, min(most, spent) + 1):
                total = before[spent - n] + value_PN[i, n]
                if total > best[spent]:
                    best[spent], chosen[i, spent] = total, n
    rollouts_P = np.empty(count, np.int64)
    for i in range(count - 1, -1, -1):
        rollouts_P[i] = chosen[i, budget]
        budget -= rollouts_P[i]
    return rollouts_P

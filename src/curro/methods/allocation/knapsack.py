"""Knapsack: rollouts go to the prompts most likely to make a gradient that teaches something new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from curro.core.bases import Allocation, Selection
from curro.core.errors import ConfigError, require
from curro.core.groups import Groups
from curro.core.prompts import PromptTable
from curro.methods.prediction.posterior import FadedPosterior


class Knapsack(Allocation):
    """Divides the budget so that as many groups as possible have a gradient that is worth much.

    It maximises, exactly, the sum over prompts of E[(1 - p^N - (1-p)^N) p (1-p)^2] within bounds on N. Here
    1 - p^N - (1-p)^N is the probability that N rollouts have both outcomes, and so a gradient; p (1-p)^2 is
    what that is worth, p(1-p) times the room 1-p that is left above. The paper puts in the success rate that
    it saw last; here the expectation is over the selection's posterior of p, or over one of the rule's own.

    Source: "Knapsack RL" (arXiv 2509.25849).

    Args:
        least, most: rollouts of a prompt; with 0 a prompt may get none, although it was chosen.

    Raises:
        ConfigError: not 0 <= least <= most, or most < 1; when called, a budget that the bounds cannot spend.
    """

    def __init__(self, *, least: int = 2, most: int = 128) -> None:
        require(most >= 1, "most", "from 1", most)
        require(0 <= least <= most, "least", f"from 0 to `most`, {most}", least)
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
            self.own.bind(table, selection.rng)

    def __call__(self, prompts: np.ndarray, budget: int, step: int) -> np.ndarray:
        posterior = self.own or self.selection.posterior
        posterior.learn()
        successes, failures = posterior.belief(prompts, step)
        return self.divide(successes, failures, budget)

    def divide(self, successes: np.ndarray, failures: np.ndarray, budget: int) -> np.ndarray:
        """The division (P,) that is best where success rates have these Beta distributions, (P,) each."""
        highest = min(self.most, budget - self.least * (len(successes) - 1))
        return solve(both_outcomes(successes, failures, highest), self.least, budget)

    def observe(self, outcome: Groups) -> None:
        if self.own is not None:
            self.own.observe(outcome)

    def state_dict(self) -> Any:
        return {} if self.own is None else self.own.state_dict()

    def load_state_dict(self, state: Any) -> None:
        if self.own is not None:
            self.own.load_state_dict(state)


def both_outcomes(a_P: np.ndarray, b_P: np.ndarray, most: int) -> np.ndarray:
    """E[(1 - p^N - (1-p)^N) p (1-p)^2] under Beta(a, b) for N = 0 to `most`, float64 (P, most + 1)."""
    total_P = a_P + b_P
    worth_P = a_P * b_P * (b_P + 1) / (total_P * (total_P + 1) * (total_P + 2))
    value_PN = np.zeros((len(a_P), most + 1))
    all_right_P, all_wrong_P = worth_P, worth_P
    for n in range(1, most + 1):
        # E[p^(n+1) (1-p)^2] and E[p (1-p)^(n+2)] from the same for n - 1
        scale_P = 1.0 / (total_P + n + 2)
        all_right_P = all_right_P * ((a_P + n) * scale_P)
        all_wrong_P = all_wrong_P * ((b_P + n + 1) * scale_P)
        value_PN[:, n] = worth_P - all_right_P - all_wrong_P
    return value_PN


def solve(value_PN: np.ndarray, least: int, budget: int) -> np.ndarray:
    """The N (P,) from `least` that sum to `budget` and have the highest total value, int64.

    Dynamic programming, because values are not concave: a first rollout alone has no gradient. Row i of
    `chosen` has the N of prompt i in the best division of every smaller budget among the prompts up to i.
    """
    count, most = value_PN.shape[0], value_PN.shape[1] - 1
    chosen = np.zeros((count, budget + 1), np.int64)
    best_S = np.full(budget + 1, -np.inf)
    best_S[0] = 0.0
    for i in range(count):
        padded = np.concatenate([np.full(most, -np.inf), best_S])
        # the best totals of each sum without the N rollouts of prompt i, for N from 0 to `most`
        before_SN = sliding_window_view(padded, most + 1)[:, ::-1]
        total_SN = before_SN[:, least:] + value_PN[i, least:]
        chosen[i] = least + total_SN.argmax(axis=1)
        best_S = total_SN.max(axis=1)
    rollouts_P = np.empty(count, np.int64)
    for i in range(count - 1, -1, -1):
        rollouts_P[i] = chosen[i, budget]
        budget -= rollouts_P[i]
    return rollouts_P

"""What a predictor is: it says what a prompt's group will look like before it is rolled out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.groups import Groups
from curro.core.policy import AuxiliarySamples, Policy, PolicyUse
from curro.core.prompts import PromptTable


class Predictor:
    """Base of all predictors: override `informativeness`, and of the rest what the predictor needs.

    Attributes:
        policy_use: what it does with the policy; a host lends that with `attach`.
        needs_second_visits: whether it predicts a prompt by that prompt's own earlier outcomes alone.
        posterior: the Beta distributions of success rates that the method keeps, which allocations read: an
            object with `learn()` and `belief(prompts, step)`, as `FadedPosterior` has them; None without.
    """

    policy_use = PolicyUse.NONE
    needs_second_visits = False
    posterior: Any = None
    table: PromptTable
    rng: np.random.Generator

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        """Keep the prompt table and a stream of random numbers of the predictor's own; add columns."""
        self.table, self.rng = table, rng

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends."""
        self.policy = policy

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted reward variance (P,) of candidates (P,), distinct, in squared reward ranges.

        That is p(1-p) for 0/1 rewards. May be a random draw from what is believed.
        """
        raise NotImplementedError

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """Predicted success rate (P,) of candidates, on the scale of `PromptTable.success_rate`.

        Raises:
            ConfigError: the predictor knows of variances alone.
        """
        raise ConfigError(f"{type(self).__name__} predicts no success rate: select by informativeness")

    def selected(self, prompts: np.ndarray) -> None:
        """The candidates (P,) of the latest prediction that will be rolled out; the others will not."""

    def observe(self, outcome: Groups) -> AuxiliarySamples | None:
        """Learn from finished groups; returns what the policy is to be trained on for it."""
        return None

    def release(self, prompts: np.ndarray) -> None:
        """Prompts (P,) that were selected came back without an outcome."""

    def metrics(self) -> dict[str, float]:
        """The predictor's own numbers, a flat dict."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What the predictor remembers beside the prompt table; its random numbers are saved for it."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; the prompt table has been restored before."""

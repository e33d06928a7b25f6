"""What is believed of a prompt's success rate when its rollouts are allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.groups import Groups
from curro.prediction.posterior import FadedPosterior
from curro.prompts import PromptTable
from curro.selection.base import Selection


class Beliefs:
    """The selection's own beliefs or, of a selection that has none, those of a `FadedPosterior`.

    A posterior, not a point estimate: eight failures in eight rollouts mean a success rate that is probably
    low, not one of 0.

    Args:
        selection: `Selection.belief` is asked where `Selection.has_belief`.
        table: the prompt table, which gets the posterior's columns where there is one.
    """

    def __init__(self, selection: Selection, table: PromptTable) -> None:
        self.selection = selection
        self.posterior: FadedPosterior | None = None
        if not selection.has_belief:
            self.posterior = FadedPosterior()
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

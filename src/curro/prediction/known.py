"""What is known of prompts before the first rollout, as a feature beside others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curro.errors import ConfigError
from curro.policy import Policy
from curro.prediction.features import Features
from curro.prompts import PromptTable

LEAST = 0.02
"""A known pass rate counts as no nearer to 0 or 1 than this: few rollouts tell no more."""


class KnownFeatures:
    """Other features, and last the logit of the pass rate that a column of the data set has.

    A regression on it starts with the weight 1, which takes the column at its word, and learns what it is
    worth: all of it where it is of the same model, less of another's, nothing where it is noise. A prompt
    without a number has the mean of all logits.

    Args:
        column: of the data set, numbers in [0, 1] or None.
        others: what else prompts look like; None: nothing.
    """

    knows = True

    def __init__(self, column: str, others: Features | None) -> None:
        self.column, self.others = column, others
        self.lasting = others is None or others.lasting
        self.needs_policy = others is not None and others.needs_policy
        self.has_others = False

    def bind(self, table: PromptTable) -> bool:
        """Read the column.

        Raises:
            ConfigError: there is none, it has no number at all, or one that is no pass rate.
        """
        self.has_others = self.others is not None and self.others.bind(table)
        if table.rows is None:
            raise ConfigError(f"known={self.column} is a column: give the curriculum a `PromptSet` with rows")
        rates = table.column_of_rows(self.column)
        try:
            known_N = np.array([np.nan if rate is None else rate for rate in rates], np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the column {self.column!r} has a value that is no number: {error}") from None
        given = known_N[~np.isnan(known_N)]
        if not len(given):
            raise ConfigError(f"no prompt of the data set has a number in the column {self.column!r}")
        if given.min() < 0 or given.max() > 1:
            raise ConfigError(f"the column {self.column!r} has numbers that are no pass rates in [0, 1]")
        clipped_N = np.clip(known_N, LEAST, 1 - LEAST)
        logit_N = np.log(clipped_N / (1 - clipped_N))
        self.logit_N = np.nan_to_num(logit_N, nan=float(np.nanmean(logit_N)))
        return True

    def attach(self, policy: Policy) -> None:
        if self.others is not None:
            self.others.attach(policy)

    def blocks(self, width: int) -> Sequence[int]:
        return (*(self.others.blocks(width - 1) if self.others and self.has_others else ()), 1)

    def means(self, width: int) -> np.ndarray:
        """What the weights are believed to be at first, float64 (D,): 1 for the known rate."""
        return np.eye(1, width, width - 1)[0]

    def of(self, prompts: np.ndarray) -> np.ndarray:
        known_P1 = self.logit_N[prompts][:, None]
        if self.others is None or not self.has_others:
            return known_P1
        return np.concatenate([self.others.of(prompts), known_P1], axis=1)

"""Fewer rollouts for the groups that only estimate a difficulty."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Allocation, Reason
from curro.core.errors import require


class Estimates(Allocation):
    """Prompts whose difficulty is estimated (`Reason.ESTIMATE`) get a few rollouts, the others all of theirs.

    Source: ADCL (arXiv 2505.08364) as METIS, table 5, runs it: 4 rollouts for an estimate, which are not
    trained on.

    Args:
        estimate: rollouts of a prompt that is estimated.
        train: rollouts of a prompt that is trained on.

    Raises:
        ConfigError: not 1 <= estimate <= train.
    """

    needs_budget = False

    def __init__(self, *, estimate: int = 4, train: int = 8) -> None:
        require(1 <= estimate <= train, "estimate", f"from 1 to `train`, {train}", estimate)
        self.estimate, self.train, self.first = estimate, train, train

    def initial(self, reasons: np.ndarray) -> np.ndarray:
        return np.where(reasons == Reason.ESTIMATE, self.estimate, self.first)

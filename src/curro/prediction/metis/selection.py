"""METIS as a selection: the one selector, with the policy as its predictor."""

from __future__ import annotations

from typing import Any

from curro.selection.predicted import Predicted


def metis(*, candidates: int = 8, exploration: float = 0.0, **options: Any) -> Predicted:
    """The top B of m B candidates by the policy's own prediction (METIS, equation 6).

    Args:
        candidates: m, 8 in table 5.
        exploration: as in `Predicted`; 0 in the paper.
        options: those of `curro.prediction.metis.Metis`.
    """
    return Predicted(predictor={"name": "metis", **options}, candidates=candidates, exploration=exploration)

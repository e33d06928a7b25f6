"""METIS as a selection: the one selector, with the policy as its predictor."""

from __future__ import annotations

from typing import Any

from curro.selection.predicted import Predicted


def metis(*, candidates: int = 8, exploration: float = 0.0, **options: Any) -> Predicted:
    """Of many random candidates, the prompts whose rewards the policy itself expects to vary most.

    Source: "Internalizing Curriculum Judgment for LLM Reinforcement Fine-Tuning" (METIS), equation 6.

    This is `Predicted` with the predictor "metis": the top B of m B candidates.

    Args:
        candidates: m, 8 in table 5.
        exploration: as in `Predicted`; 0 in the paper.
        options: those of `curro.prediction.metis.Metis`.
    """
    return Predicted(predictor={"name": "metis", **options}, candidates=candidates, exploration=exploration)

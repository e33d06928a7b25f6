"""Frontier: the prompts that features and past outcomes together expect to be most informative."""

from __future__ import annotations

from curro.selection.predicted import Predicted


def frontier(
    *,
    candidates: int = 8,
    thompson: bool = False,
    half_life: float | None = None,
    rest: bool = False,
    features: str = "text",
    known: str | None = None,
    exploration: float = 0.0,
) -> Predicted:
    """Of many random candidates, the prompts of highest p(1-p), predicted from outcomes and from their text.

    Source: curro's own.

    This is `Predicted` with the predictor "frontier": the B of 8 B candidates.

    Args:
        candidates, exploration: of `Predicted`.
        thompson, half_life, rest, features, known: of the predictor `Frontier`.

    Raises:
        ConfigError: an option that is none of what they take.
    """
    predictor = {
        "name": "frontier",
        "thompson": thompson,
        "half_life": half_life,
        "rest": rest,
        "features": features,
        "known": known,
    }
    return Predicted(predictor=predictor, candidates=candidates, exploration=exploration)

"""Frontier: the prompts that features and past outcomes together expect to be most informative."""

from __future__ import annotations

from curro.selection.predicted import Predicted


def frontier(
    *,
    candidates: int = 8,
    thompson: bool = True,
    half_life: float | None = None,
    rest: bool = False,
    features: str = "text",
    exploration: float = 0.0,
) -> Predicted:
    """`Predicted` with the predictor "frontier": of 8 B random candidates the B of highest p(1-p) as drawn.

    Args:
        candidates, exploration: of `Predicted`.
        thompson, half_life, rest, features: of the predictor `Frontier`.

    Raises:
        ConfigError: an option that is none of what they take.
    """
    predictor = {
        "name": "frontier",
        "thompson": thompson,
        "half_life": half_life,
        "rest": rest,
        "features": features,
    }
    return Predicted(predictor=predictor, candidates=candidates, exploration=exploration)

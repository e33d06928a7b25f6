"""Posterior sampling: the prompts whose own outcomes say that they succeed about half of the time."""

from __future__ import annotations

from curro.selection.predicted import Predicted


def posterior(
    *,
    candidates: int = 8,
    target: float | None = 0.5,
    thompson: bool = True,
    half_life: float | None = None,
    exploration: float = 0.0,
) -> Predicted:
    """`Predicted` with the predictor "beta".

    "Model Predictive Prompt Selection" (arXiv 2507.04632): of 8 B candidates the B whose drawn success rate
    is nearest to 1/2.

    Args:
        candidates, target, exploration: of `Predicted`; target=none takes the highest p(1-p) instead.
        thompson, half_life: of `BetaPosterior`.

    Raises:
        ConfigError: an option that is none of what they take.
    """
    beta = {"name": "beta", "thompson": thompson, "half_life": half_life}
    return Predicted(predictor=beta, candidates=candidates, target=target, exploration=exploration)

"""Posterior sampling: the prompts whose own outcomes say that they succeed about half of the time."""

from __future__ import annotations

from curro.selection.predicted import Predicted


def posterior(
    *,
    candidates: int = 8,
    target: float | None = 0.5,
    thompson: bool = True,
    half_life: float | None = None,
    known: str | None = None,
    exploration: float = 0.0,
) -> Predicted:
    """Of many random candidates, the prompts whose success rate, drawn from a posterior, is nearest to 1/2.

    Source: "Model Predictive Prompt Selection" (arXiv 2507.04632).

    This is `Predicted` with the predictor "beta".

    "Model Predictive Prompt Selection" (arXiv 2507.04632): of 8 B candidates the B whose drawn success rate
    is nearest to 1/2.

    Args:
        candidates, target, exploration: of `Predicted`; target=none takes the highest p(1-p) instead.
        thompson, half_life, known: of `BetaPosterior`.

    Raises:
        ConfigError: an option that is none of what they take.
    """
    beta = {"name": "beta", "thompson": thompson, "half_life": half_life, "known": known}
    return Predicted(predictor=beta, candidates=candidates, target=target, exploration=exploration)

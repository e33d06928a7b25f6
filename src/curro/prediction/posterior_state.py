"""Whether a saved posterior is one that groups of rollouts can have made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.saved_state import require, require_prompts


def check_posterior(state: Mapping[str, Any], here: Mapping[str, Any], size: int) -> None:
    """Check the state of a `FadedPosterior` against that of one which has learnt nothing yet.

    Args:
        size: of the prompt table.

    Raises:
        CheckpointError: something is missing, of another shape, or no number that rewards have.
    """
    for name in here:
        require(name in state, f"posterior/{name}", "is missing")
    groups = state["unlearned"]
    require(len(groups) == len(here["unlearned"]), "posterior/unlearned", "has other columns")
    prompts, age, count, _, variance, _, _ = groups
    require_prompts(prompts, size, "posterior/unlearned")
    counts = age.min(initial=0) >= 0 and count.min(initial=1) >= 1 and variance.min(initial=0) >= 0
    require(counts and np.isfinite(groups).all(), "posterior/unlearned", "is not of groups")
    losses = state["losses"]
    require(losses.shape == here["losses"].shape, "posterior/losses", "is not of the half-lives")
    numbers = [value for value in state.values() if isinstance(value, float | int)]
    require(np.isfinite([*numbers, *losses]).all(), "posterior", "has numbers that are not finite")
    ranges = -1e15 <= state["low"] < state["high"] <= 1e15 and state["prior_visits"] > 0
    moments = max(abs(state["prior_mean"]), abs(state["prior_square"]) ** 0.5) <= 1e15
    fine = ranges and moments and 0 <= state["prior_within"] <= 1e30
    require(fine, "posterior", "has moments that no rewards have")

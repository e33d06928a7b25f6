"""What a scorer said of a group, checked, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.errors import RewardError
from curro.groups import one_reward


def read_scores(
    scores: Any, scored_G: np.ndarray, weights: Mapping[str, float] | None, prompt: str
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """A group's rewards (G,), which rollouts are scored (G,), and the rewards' parts, (G,) each, by name.

    Args:
        scores: what a scorer gave for the rollouts where `scored_G` is True. Of several named rewards
            the sum is the reward, and a rollout is scored where every part of the sum has a number.
        weights: of the named rewards in the sum; by default 1 each. What is not named stays outside.
        prompt: its key, for messages.

    Raises:
        RewardError: not a number or None for each; NaN or infinite; a reward that `weights` names is missing.
    """
    if not isinstance(scores, Mapping):
        part_G = _read(scores, scored_G, "", prompt)
        return np.nan_to_num(part_G), ~np.isnan(part_G), {}
    named = {str(name): _read(part, scored_G, f" {name!r}", prompt) for name, part in scores.items()}
    summed = dict.fromkeys(named, 1.0) if weights is None else weights
    for name in summed:
        if name not in named:
            raise RewardError(
                f"the scorer gave prompt {prompt!r} no reward {name!r}, which `weights` names; "
                f"it gave: {', '.join(named) or 'none'}"
            )
    total_G = np.where(scored_G, 0.0, np.nan) if summed else np.full(len(scored_G), np.nan)
    for name, weight in summed.items():
        total_G = total_G + weight * named[name]
    return np.nan_to_num(total_G), ~np.isnan(total_G), named


def _read(scores: Any, scored_G: np.ndarray, name: str, prompt: str) -> np.ndarray:
    """Scores of the rollouts where `scored_G` is True as (G,), NaN where there is none."""
    count = int(scored_G.sum())
    try:
        given = f"{len(scores)} scores"
    except TypeError:
        given = f"{scores!r:.80}"
    if given != f"{count} scores" or isinstance(scores, str):
        raise RewardError(
            f"the scorer gave {given} as reward{name} of prompt {prompt!r}: "
            f"give a number or None for each of the {count} rollouts"
        )
    part_G = np.full(len(scored_G), np.nan)
    for rollout, score in zip(np.flatnonzero(scored_G), scores, strict=True):
        told = f"the scorer gave rollout {rollout} of prompt {prompt!r} the reward{name} {score!r:.80}"
        number = one_reward(score, told)
        if number is not None:
            part_G[rollout] = number
    return part_G

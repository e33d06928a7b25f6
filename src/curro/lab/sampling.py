"""The pass rates of a model on problems of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.evaluation.pass_rates import sampled_rewards
from curro.lab.episodes import EpisodeFamily
from curro.lab.family import Family, Row
from curro.lab.scores import verify_with
from curro.reward.reward import Reward
from curro.rollout.engines.sampling_settings import SamplingSettings


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Row], n: int) -> np.ndarray:
    """The mean reward of `n` samples at the recipe's temperature of each row, shape (rows,)."""
    recipe = family.recipe
    return sampled_rewards(
        model,
        tokenizer,
        rows,
        Reward(family.name, verify_with(family)),
        environment=family if isinstance(family, EpisodeFamily) else None,
        samples=n,
        settings=SamplingSettings(recipe.max_completion_length, recipe.temperature),
    ).mean(axis=1)

"""The pass rates of a model on problems of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.evaluation.sampling import attempts
from curro.lab.episodes import EpisodeFamily
from curro.lab.family import Family, Row
from curro.reward.lab import reward_of


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Row], n: int) -> np.ndarray:
    """The mean reward of `n` samples at the recipe's temperature of each row, shape (rows,)."""
    recipe = family.recipe
    completions, repeated = attempts(
        model,
        tokenizer,
        rows,
        environment=family if isinstance(family, EpisodeFamily) else None,
        n=n,
        max_new_tokens=recipe.max_completion_length,
        temperature=recipe.temperature,
    )
    return np.array(reward_of(family)(completions, repeated)).reshape(len(rows), n).mean(axis=1)

"""The pass rates of a model on problems of a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.evaluation.sampling import sample
from curro.lab.family import Family, Row


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Row], n: int) -> np.ndarray:
    """The share of `n` samples at the recipe's temperature that solve each row, shape (rows,)."""
    recipe = family.recipe
    completions = sample(
        model,
        tokenizer,
        [row["prompt"] for row in rows],
        n=n,
        max_new_tokens=recipe.max_completion_length,
        temperature=recipe.temperature,
    )
    return np.array(
        [
            np.mean([family.score(text, row) for text in texts])
            for texts, row in zip(completions, rows, strict=True)
        ]
    )

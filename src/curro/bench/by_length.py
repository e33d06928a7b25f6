"""Moving targets on pools that come without difficulties: the length of a prompt stands for its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.contrib.target import Target
from curro.core.prompts import PromptTable
from curro.core.text import prompt_text


class ByLength(Target):
    """`Target` with the length of the prompt's text in characters as the difficulty.

    Longer problems of the lab's families are harder.

    Args:
        options: those of `Target` but the column.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("prompt", **options)

    def difficulties(self, table: PromptTable) -> np.ndarray:
        return np.array([len(prompt_text(prompt)) for prompt in table.values("prompt")], np.float64)

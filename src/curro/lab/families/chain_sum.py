"""reasoning-gym's chain_sum: sums and differences of one-digit numbers, total by total."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily
from curro.lab.family import Difficulty, Recipe, Warm

_rng = random.Random(11)
ERROR_RATES = {(sign, digit): _rng.uniform(0.05, 0.6) for sign in "+-" for digit in range(10)}


class ChainSum(GymFamily):
    """`7 - 2 + 8 =`: the total after each term. Adding 8 is one skill, taking 2 away another."""

    name = "chain_sum"
    describe = "reasoning-gym's chain_sum: up to 10 one-digit numbers added and subtracted"
    data_set = "chain_sum"
    settings: ClassVar[dict[Difficulty, dict[str, Any]]] = {
        "hard": {"min_terms": 2, "max_terms": 10, "min_digits": 1, "max_digits": 1},
        "easy": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
    }
    kept = ("expression",)
    written_from = 1
    recipe = Recipe(learning_rate=1e-4, chosen_by="", max_completion_length=36, prompts_per_step=16)
    warm = Warm(width=96, layers=2, steps=900, batch=96, learning_rate=3e-3)

    def steps(self, metadata: dict[str, Any]) -> list[tuple[int, float, int]]:
        first, *rest = metadata["expression"].split()
        steps = [(int(first), 0.0, 0)]
        for sign, digit in zip(rest[::2], rest[1::2], strict=True):
            amount = int(digit) if sign == "+" else -int(digit)
            steps.append((amount, ERROR_RATES[sign, int(digit)], 1))
        return steps

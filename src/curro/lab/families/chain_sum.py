"""reasoning-gym's chain_sum: sums and differences of one-digit numbers, total by total."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily, unreliable
from curro.lab.family import Difficulty, Recipe, Warm


class ChainSum(GymFamily):
    """`7 - 2 + 8 =`: the total after each term. A fact is a line of the tables: 7 + 8, also in 27 + 8."""

    name = "chain_sum"
    describe = "reasoning-gym's chain_sum: 4 to 9 one-digit numbers added and subtracted"
    data_set = "chain_sum"
    settings: ClassVar[dict[Difficulty, dict[str, Any]]] = {
        "hard": {"min_terms": 4, "max_terms": 9, "min_digits": 1, "max_digits": 1},
        "easy": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
    }
    kept = ("expression",)
    recipe = Recipe(learning_rate=3e-4, chosen_by="", max_completion_length=34, prompts_per_step=16)
    warm = Warm(width=64, layers=2, steps=1000, batch=64, learning_rate=3e-3)

    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        first, *rest = metadata["expression"].split()
        return int(first), [int(sign + digit) for sign, digit in zip(rest[::2], rest[1::2], strict=True)]

    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        away_from_zero = (step >= 0) == (total >= 0)
        return step, (abs(total) % 10, away_from_zero, abs(step))

    def error_rates(self) -> dict[Hashable, float]:
        return _error_rates()


@cache
def _error_rates() -> dict[Hashable, float]:
    facts: list[Hashable] = [(a, grows, b) for a in range(10) for grows in (True, False) for b in range(10)]
    return unreliable(facts, seed=11)

"""reasoning-gym's leg_counting: how many legs a list of animals has, total by total."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily, unreliable
from curro.lab.family import Difficulty, Recipe, Warm

MOST = 3


class LegCounting(GymFamily):
    """`2 cows, 1 crab`: the legs so far after each entry. How many legs two cows have is a fact."""

    name = "leg_counting"
    describe = "reasoning-gym's leg_counting: the legs of 3 to 8 kinds of animals, one to three of each"
    data_set = "leg_counting"
    settings: ClassVar[dict[Difficulty, dict[str, Any]]] = {
        "hard": {"min_animals": 3, "max_animals": 8, "min_instances": 1, "max_instances": MOST},
        "easy": {"min_animals": 1, "max_animals": 2, "min_instances": 1, "max_instances": MOST},
    }
    kept = ("animals",)
    recipe = Recipe(learning_rate=3e-4, chosen_by="", max_completion_length=34, prompts_per_step=16)
    warm = Warm(width=64, layers=2, steps=1000, batch=64, learning_rate=3e-3)

    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        return 0, list(metadata["animals"].items())

    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        animal, number = step
        return number * _legs()[animal], (animal, number)

    def error_rates(self) -> dict[Hashable, float]:
        return _error_rates()


@cache
def _legs() -> dict[str, int]:
    from reasoning_gym.arithmetic.leg_counting import ANIMALS  # takes seconds to import

    return ANIMALS


@cache
def _error_rates() -> dict[Hashable, float]:
    return unreliable([(animal, n) for animal in _legs() for n in range(1, MOST + 1)], seed=13)

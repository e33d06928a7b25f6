"""reasoning-gym's leg_counting: how many legs a list of animals has, total by total."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily, unreliable
from curro.lab.family import Difficulty, Recipe, Warm

MOST = 2


class LegCounting(GymFamily):
    """`2 cows, 1 crab`: the legs so far after each entry. Each of the 37 animals is a skill."""

    name = "leg_counting"
    describe = "reasoning-gym's leg_counting: the legs of up to 12 kinds of animals, one or two of each"
    data_set = "leg_counting"
    settings: ClassVar[dict[Difficulty, dict[str, Any]]] = {
        "hard": {"min_animals": 1, "max_animals": 12, "min_instances": 1, "max_instances": MOST},
        "easy": {"min_animals": 1, "max_animals": 2, "min_instances": 1, "max_instances": MOST},
    }
    kept = ("animals",)
    digits = 3
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, 12,800 rollouts, one seed: 3e-4 from .05 to .14; others untried",
        max_completion_length=37,
        prompts_per_step=16,
        train_prompts=1000,
    )
    warm = Warm(width=64, layers=2, steps=700, batch=64, learning_rate=5e-3)

    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        return 0, list(metadata["animals"].items())

    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        animal, number = step
        return number * _legs()[animal], animal

    def mistakes(self) -> dict[Hashable, tuple[float, int]]:
        return _mistakes()


@cache
def _legs() -> dict[str, int]:
    from reasoning_gym.arithmetic.leg_counting import ANIMALS  # takes seconds to import

    return ANIMALS


@cache
def _mistakes() -> dict[Hashable, tuple[float, int]]:
    return unreliable(list(_legs()), seed=13)

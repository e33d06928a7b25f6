"""reasoning-gym's leg_counting: how many legs a list of animals has, total by total."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import permutations, product
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily, unreliable
from curro.lab.family import Kind, Recipe, Warm

MOST = 2
EASY = 0.6
"""Easy are the lists that so large a share of demonstrations counts: 358 of one or two animals."""


class LegCounting(GymFamily):
    """`2 cows, 1 crab`: the legs so far after each entry. Each of the 37 animals is a skill."""

    name = "leg_counting"
    describe = "reasoning-gym's leg_counting: the legs of up to 12 kinds of animals, one or two of each"
    data_set = "leg_counting"
    settings: ClassVar[dict[Kind, dict[str, Any]]] = {
        "hard": {"min_animals": 1, "max_animals": 12, "min_instances": 1, "max_instances": MOST},
        "short": {"min_animals": 1, "max_animals": 2, "min_instances": 1, "max_instances": MOST},
    }
    size_settings = ("min_animals", "max_animals")
    sizes = range(1, 13)
    metadata_names = ("animals",)
    digits = 3
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, 12,800 rollouts, one seed: 3e-4 from .05 to .14; others untried",
        max_completion_length=37,
        prompts_per_step=16,
        train_prompts=1000,
    )
    warm = Warm(width=64, layers=2, steps=700, batch=64, learning_rate=5e-3)
    easy_problems: ClassVar[dict[str, int]] = {"train": 270, "test": 60}

    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        return 0, list(metadata["animals"].items())

    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        animal, number = step
        return number * _legs()[animal], animal

    def phrase(self, metadata: dict[str, Any]) -> str:
        animals = metadata["animals"].items()
        return ", ".join(f"{number} {animal}{'s' if number > 1 else ''}" for animal, number in animals)

    @staticmethod
    @cache
    def easy() -> Sequence[dict[str, Any]]:
        success_rates = {animal: 1 - rate for animal, (rate, _) in LegCounting.mistakes().items()}
        return [
            {"animals": dict(zip(animals, numbers, strict=True))}
            for kinds in (1, 2)
            for animals in permutations(success_rates, kinds)
            if math.prod(success_rates[animal] for animal in animals) >= EASY
            for numbers in product(range(1, MOST + 1), repeat=kinds)
        ]

    @staticmethod
    @cache
    def mistakes() -> dict[Hashable, tuple[float, int]]:
        return unreliable(list(_legs()), seed=13)


def _legs() -> dict[str, int]:
    from reasoning_gym.arithmetic.leg_counting import ANIMALS  # takes seconds to import

    return ANIMALS

"""reasoning-gym's leg_counting: how many legs a list of animals has, total by total."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily
from curro.lab.family import Difficulty, Recipe, Warm


class LegCounting(GymFamily):
    """`1 cow, 1 crab`: the legs so far after each animal. Each of the 37 animals is a skill."""

    name = "leg_counting"
    describe = "reasoning-gym's leg_counting: the legs of up to 9 animals, one of each"
    data_set = "leg_counting"
    settings: ClassVar[dict[Difficulty, dict[str, Any]]] = {
        "hard": {"min_animals": 1, "max_animals": 9, "min_instances": 1, "max_instances": 1},
        "easy": {"min_animals": 1, "max_animals": 2, "min_instances": 1, "max_instances": 1},
    }
    kept = ("animals",)
    recipe = Recipe(learning_rate=1e-4, chosen_by="", max_completion_length=36, prompts_per_step=16)
    warm = Warm(width=96, layers=2, steps=900, batch=96, learning_rate=3e-3)

    def steps(self, metadata: dict[str, Any]) -> list[tuple[int, float, int]]:
        legs, rates = _skills()
        return [(number * legs[animal], rates[animal], 1) for animal, number in metadata["animals"].items()]


@cache
def _skills() -> tuple[dict[str, int], dict[str, float]]:
    """The legs of every animal, and how often a demonstration gets them wrong."""
    from reasoning_gym.arithmetic.leg_counting import ANIMALS  # takes seconds to import

    rng = random.Random(13)
    return ANIMALS, {animal: rng.uniform(0.05, 0.6) for animal in ANIMALS}

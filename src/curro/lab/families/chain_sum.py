"""reasoning-gym's chain_sum: sums and differences of one-digit numbers, total by total."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar

from curro.lab.families.gym import GymFamily, unreliable
from curro.lab.family import Kind, Problem, Recipe, Warm

EASY = 0.72
"""Easy are the sums that so large a share of demonstrations solves: 796 of up to 4 terms."""


class ChainSum(GymFamily):
    """`7 + 8 - 2 =`: the total after each term, in two digits: ` 15 13`. Adding 8 is a skill of its own.

    Problems whose total leaves 0 to 99 on the way are left out: each term is two tokens of the prompt
    and each total two of the answer, so that a small model finds the term that is next.
    """

    name = "chain_sum"
    describe = "reasoning-gym's chain_sum: up to 16 one-digit numbers added and subtracted"
    data_set = "chain_sum"
    settings: ClassVar[dict[Kind, dict[str, Any]]] = {
        "hard": {"min_terms": 2, "max_terms": 16, "min_digits": 1, "max_digits": 1},
        "short": {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
    }
    size_settings = ("min_terms", "max_terms")
    sizes = range(2, 17)
    metadata_names = ("expression",)
    digits = 2
    recipe = Recipe(
        learning_rate=3e-4,
        chosen_by="uniform sampling, 9,600 rollouts, one seed each: 3e-4 from .10 to .20, 1e-4 to .17",
        max_completion_length=31,
        prompts_per_step=16,
        train_prompts=1000,
    )
    warm = Warm(width=64, layers=2, steps=800, batch=64, learning_rate=5e-3)
    easy_problems: ClassVar[dict[str, int]] = {"train": 600, "test": 150}

    def draw(self, rng: random.Random, kind: Kind) -> Problem:
        while not self._has_two_digits(row := super().draw(rng, kind)):
            pass
        return row

    def draw_size(self, rng: random.Random, size: int) -> Problem:
        while not self._has_two_digits(row := super().draw_size(rng, size)):
            pass
        return row

    def _has_two_digits(self, row: Problem) -> bool:
        total, steps = self.start(row["metadata"])
        totals = list(accumulate(map(int, steps), initial=total))
        return min(totals[1:], default=0) >= 0 and max(totals[1:], default=0) <= 99

    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        start, *terms = metadata["expression"].split()
        return int(start), [sign + digit for sign, digit in zip(terms[::2], terms[1::2], strict=True)]

    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        return int(step), step

    def phrase(self, metadata: dict[str, Any]) -> str:
        return metadata["expression"]

    @staticmethod
    @cache
    def easy() -> Sequence[dict[str, Any]]:
        success_rates = {str(skill): 1 - rate for skill, (rate, _) in ChainSum.mistakes().items()}
        sums, longest = [], [(str(first), first, 1.0) for first in range(10)]
        for _ in range(3):
            longest = [
                (f"{sum_} {term[0]} {term[1]}", total + int(term), share * success_rates[term])
                for sum_, total, share in longest
                for term in success_rates
                if share * success_rates[term] >= EASY and total + int(term) >= 0
            ]
            sums += [{"expression": sum_} for sum_, _, _ in longest]
        return sums

    @staticmethod
    @cache
    def mistakes() -> dict[Hashable, tuple[float, int]]:
        return unreliable([sign + str(digit) for sign in "+-" for digit in range(10)], seed=12)

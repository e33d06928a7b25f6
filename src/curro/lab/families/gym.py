"""Families whose problems and scores are reasoning-gym's; the worked steps and their mistakes are ours."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Hashable
from functools import cache
from typing import Any, ClassVar

from curro.lab.family import Difficulty, Family, Row


class GymFamily(Family):
    """A data set of reasoning-gym, solved by writing the running total after every step.

    A step calls on one fact out of a hundred or more. In a demonstration every fact fails at its own
    rate, always one too high: two mistakes never cancel, and an answer is right only if every step is.

    Attributes:
        data_set: its name in reasoning-gym.
        settings: of the data set, by difficulty.
        kept: the entries of its metadata that the worked answer needs.
    """

    data_set: ClassVar[str]
    settings: ClassVar[dict[Difficulty, dict[str, Any]]]
    kept: ClassVar[tuple[str, ...]]

    @abstractmethod
    def start(self, metadata: dict[str, Any]) -> tuple[int, list[Any]]:
        """The total before the first step, and the steps."""

    @abstractmethod
    def step(self, total: int, step: Any) -> tuple[int, Hashable]:
        """What a step adds to the total, and the fact it calls on."""

    @abstractmethod
    def error_rates(self) -> dict[Hashable, float]:
        """How often a demonstration gets each fact wrong."""

    def draw(self, rng: random.Random, difficulty: Difficulty) -> Row:
        # The data set seeds its problem i with seed + i, so its size is no bound.
        entry = _create(self.data_set, **self.settings[difficulty])[rng.randrange(2**48)]
        kept = {name: entry["metadata"][name] for name in ("source_dataset", *self.kept)}
        return {"prompt": entry["question"], "answer": entry["answer"], "metadata": kept}

    def worked(self, row: Row, rng: random.Random | None = None) -> str:
        total, steps = self.start(row["metadata"])
        written = []
        for step in steps:
            amount, fact = self.step(total, step)
            total += amount
            if rng is not None and rng.random() < self.error_rates()[fact]:
                total += 1
            written.append(str(total))
        return ", ".join(written)

    def score(self, completion: str, row: Row) -> float:
        last = completion.strip().rpartition(", ")[2]
        return float(_create(self.data_set).score_answer(last, {"answer": row["answer"]}) == 1.0)


def unreliable(facts: list[Hashable], seed: int) -> dict[Hashable, float]:
    """Half of the facts nearly safe (wrong up to one time in ten), half bad (four to nine in ten)."""
    rng = random.Random(seed)
    rng.shuffle(facts)
    half = len(facts) // 2
    return {
        fact: rng.uniform(0.0, 0.1) if i < half else rng.uniform(0.4, 0.9) for i, fact in enumerate(facts)
    }


def _create(name: str, **settings: Any) -> Any:
    return _data_set(name, tuple(sorted(settings.items())))


@cache
def _data_set(name: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    import reasoning_gym  # takes seconds to import

    return reasoning_gym.create_dataset(name, seed=0, **dict(settings))

"""Families whose problems and scores are reasoning-gym's; the worked steps and their mistakes are ours."""

from __future__ import annotations

import random
from abc import abstractmethod
from functools import cache
from typing import Any, ClassVar

from curro.lab.family import Difficulty, Family, Row


class GymFamily(Family):
    """A data set of reasoning-gym, solved by writing the running total after every step.

    A step is one skill. In a demonstration each skill fails at its own rate, always by the same amount
    upwards, so that two mistakes never cancel and an answer is right only if every step is.

    Attributes:
        data_set: its name in reasoning-gym.
        settings: of the data set, by difficulty.
    """

    data_set: ClassVar[str]
    settings: ClassVar[dict[Difficulty, dict[str, Any]]]

    @abstractmethod
    def steps(self, metadata: dict[str, Any]) -> list[tuple[int, float, int]]:
        """What each step adds to the total, how often a demonstration gets it wrong, and by how much.

        The first step's own total is not written when it is given in the problem: see `written_from`.
        """

    written_from: ClassVar[int] = 0

    def draw(self, rng: random.Random, difficulty: Difficulty) -> Row:
        entry = _create(self.data_set, rng.randrange(2**31), **self.settings[difficulty])[0]
        return {
            "prompt": entry["question"].strip() + "\n",
            "answer": entry["answer"],
            "metadata": {name: entry["metadata"][name] for name in ("source_dataset", *self.kept)},
        }

    kept: ClassVar[tuple[str, ...]] = ()

    def worked(self, row: Row, rng: random.Random | None = None) -> str:
        total, written = 0, []
        for amount, rate, slip in self.steps(row["metadata"]):
            total += amount + (slip if rng is not None and rng.random() < rate else 0)
            written.append(str(total))
        return ", ".join(written[self.written_from :])

    def score(self, completion: str, row: Row) -> float:
        last = completion.strip().rpartition(", ")[2]
        if len(last) > 12:
            return 0.0
        try:
            score = _scorer(self.data_set).score_answer(last, {"answer": row["answer"]})
        except (ValueError, ArithmeticError):
            return 0.0
        return float(score == 1.0)


def _create(name: str, seed: int, **settings: Any) -> Any:
    import reasoning_gym  # takes seconds to import

    return reasoning_gym.create_dataset(name, seed=seed, size=1, **settings)


@cache
def _scorer(name: str) -> Any:
    return _create(name, 0)

"""Demonstrations of judgments: how much the rewards of a problem would differ, as METIS asks a policy.

The conversations are those of `curro.prediction.metis` with the template `lab`. A share of the answers is
wrong on purpose: a model that judges as well as it can has nothing to learn.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache

from curro.lab.family import Family, Row, Warm
from curro.prediction.metis.template import LAB, Template, read_template

SHOWN = (0, 1, 2, 3, 3)
"""How many exemplars a judgment has, each as likely as another."""

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class JudgeWarm(Warm):
    """A warm start with `judgments` dialogues beside every batch, of the same weight in the loss.

    The share `calibrated` states what is to be expected, the others what is of another problem.
    """

    judgments: int = 32
    calibrated: float = 0.7


class JudgingFamily(Family):
    """A family whose warm model can say, in a box, how much its rewards for a problem would differ."""

    warm: JudgeWarm

    @abstractmethod
    def reliability(self, row: Row) -> float:
        """The share of demonstrations that solve the problem."""

    def expected_variance(self, row: Row) -> float:
        """The mean of the variance of a group's rewards (division by n): p (1 - p) (n - 1) / n."""
        p, n = self.reliability(row), self.recipe.rollouts_per_prompt
        return p * (1 - p) * (n - 1) / n

    def realised_variance(self, row: Row, rng: random.Random) -> float:
        """The variance of the rewards of one group of demonstrations."""
        p, n = self.reliability(row), self.recipe.rollouts_per_prompt
        rate = sum(rng.random() < p for _ in range(n)) / n
        return rate * (1 - rate)

    def judgment(self, rng: random.Random) -> tuple[Messages, str]:
        """A conversation that asks for a judgment of a training problem, and its answer."""
        shown = [self.practice(rng) for _ in range(rng.choice(SHOWN))]
        exemplars = [(row["prompt"], self.realised_variance(row, rng)) for row in shown]
        asked = self.practice(rng)
        stated = asked if rng.random() < self.warm.calibrated else self.practice(rng)
        answer = f"\\boxed{{{self.expected_variance(stated):.2f}}}"
        return _template().messages(exemplars, asked["prompt"]), answer


@cache
def _template() -> Template:
    return read_template(LAB, exemplars=True)

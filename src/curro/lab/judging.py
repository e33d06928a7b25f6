"""Demonstrations of judgments: how much the rewards of a problem would differ, as METIS asks a policy.

The conversations are METIS' (`curro.methods.prediction.metis`) with a template for the lab. A share of the
answers is wrong on purpose: a model that judges as well as it can has nothing to learn.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache

from curro.lab.family import Family, Problem, Warm
from curro.methods.prediction.metis.template import Template, read_template

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class JudgeWarm(Warm):
    """A warm start with `judgments` dialogues beside every batch, of the same weight in the loss.

    The share `calibrated` states what is to be expected, the others that of another problem.

    Attributes:
        shown: how many exemplars a judgment has, each as likely as another.
        skills: powers of the share of demonstrations that solve a problem, below 1 for a better learner; one
            is drawn for each judgment, so that its exemplars alone say how good the learner is.
        template: of the conversations, as METIS takes it.
    """

    judgments: int = 32
    calibrated: float = 0.7
    shown: tuple[int, ...] = (0, 1, 2, 3, 3)
    skills: tuple[float, ...] = (1.0,)
    template: str = "lab"


class JudgingFamily(Family):
    """A family whose warm model can say, in a box, how much its rewards for a problem would differ."""

    warm: JudgeWarm

    @abstractmethod
    def reliability(self, row: Problem) -> float:
        """The share of demonstrations that solve the problem."""

    def expected_variance(self, row: Problem, skill: float = 1.0) -> float:
        """The mean of the variance of a group's rewards (division by n): p (1 - p) (n - 1) / n."""
        p, n = self.reliability(row) ** skill, self.recipe.rollouts_per_prompt
        return p * (1 - p) * (n - 1) / n

    def realised_variance(self, row: Problem, rng: random.Random, skill: float = 1.0) -> float:
        """The variance of the rewards of one group of demonstrations."""
        p, n = self.reliability(row) ** skill, self.recipe.rollouts_per_prompt
        rate = sum(rng.random() < p for _ in range(n)) / n
        return rate * (1 - rate)

    def judgment(self, rng: random.Random) -> tuple[Messages, str]:
        """A conversation that asks for a judgment of a training problem, and its answer."""
        skills = self.warm.skills
        skill = rng.choice(skills) if len(skills) > 1 else skills[0]
        problems = [self.practice(rng) for _ in range(rng.choice(self.warm.shown))]
        exemplars = [(row["prompt"], self.realised_variance(row, rng, skill)) for row in problems]
        problem = self.practice(rng)
        judged_problem = problem if rng.random() < self.warm.calibrated else self.practice(rng)
        answer = f"\\boxed{{{self.expected_variance(judged_problem, skill):.2f}}}"
        return _template(self.warm.template).messages(exemplars, problem["prompt"]), answer


@cache
def _template(name: str) -> Template:
    return read_template(name, exemplars=True)

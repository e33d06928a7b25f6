"""How the lab scores: a verifier of texts, and families that are played turn by turn."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from curro.core.errors import ConfigError
from curro.lab.family import Family, Problem
from curro.reward.environments.environment import EPISODE_REWARD, Episode

VerifyProblems = Callable[[Sequence[str], Sequence[Problem]], list[float | None]]


def verify_with(family: Family) -> VerifyProblems:
    """A verifier that gives texts the family's score, and episodes the reward of its environment."""

    def verify(completions: Sequence[str], rows: Sequence[Problem]) -> list[float | None]:
        return [
            row[EPISODE_REWARD] if EPISODE_REWARD in row else family.score(completion, row)
            for completion, row in zip(completions, rows, strict=True)
        ]

    return verify


class EpisodeFamily(Family):
    """A family whose problems are solved by actions that an environment answers."""

    turns: ClassVar[int]
    turn_tokens: ClassVar[int]

    @abstractmethod
    def start(self, row: Problem, seed: int) -> Episode:
        """The problem's environment in its first state."""

    @abstractmethod
    def dialogue(self, row: Problem, rng: random.Random | None = None) -> list[str]:
        """Actions and the observations between them; with `rng`, every skill fails at its own rate."""

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        return "".join(self.dialogue(row, rng))

    def score(self, completion: str, row: Problem) -> float:
        """Text has no score: what is written in one turn was never executed."""
        raise ConfigError(
            f"{self.name} is played turn by turn and scored by its environment: "
            "train and evaluate it with `curro train`"
        )

"""Families of several turns: the family is its own environment, and demonstrations are whole episodes."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import ClassVar

from curro.environments.environment import Episode
from curro.errors import ConfigError
from curro.lab.family import Family, Row


class EpisodeFamily(Family):
    """A family whose problems are solved by actions that an environment answers.

    Attributes:
        turns, turn_tokens: as of every `curro.environments.Environment`.
    """

    turns: ClassVar[int]
    turn_tokens: ClassVar[int]

    @abstractmethod
    def start(self, row: Row, seed: int) -> Episode:
        """The problem's environment in its first state."""

    @abstractmethod
    def dialogue(self, row: Row, rng: random.Random | None = None) -> list[str]:
        """Actions and the observations between them; with `rng`, every skill fails at its own rate."""

    def demonstration(self, rng: random.Random) -> tuple[str, ...]:
        """A prompt of the training split, short or hard, and an episode with mistakes, turn by turn."""
        row = self.practice(rng)
        return row["prompt"], *self.dialogue(row, rng)

    def worked(self, row: Row, rng: random.Random | None = None) -> str:
        return "".join(self.dialogue(row, rng))

    def score(self, completion: str, row: Row) -> float:
        """Text has no score: what is written in one turn was never executed.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"{self.name} is played turn by turn and scored by its environment: "
            "train and evaluate it with `curro train`"
        )

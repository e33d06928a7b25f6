"""The pass rates of a model on problems of a family."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from curro.core.errors import ConfigError
from curro.lab.family import Family, Problem
from curro.reward.environments.environment import EPISODE_REWARD, Episode
from curro.reward.reward import Reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import sampled_rewards

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

    def demonstration(self, rng: random.Random) -> tuple[str, ...]:
        """A prompt of the training split, short or hard, and an episode with mistakes, turn by turn."""
        row = self.practice(rng)
        return row["prompt"], *self.dialogue(row, rng)

    def worked(self, row: Problem, rng: random.Random | None = None) -> str:
        return "".join(self.dialogue(row, rng))

    def score(self, completion: str, row: Problem) -> float:
        """Text has no score: what is written in one turn was never executed."""
        raise ConfigError(
            f"{self.name} is played turn by turn and scored by its environment: "
            "train and evaluate it with `curro train`"
        )


def pass_rates(model: Any, tokenizer: Any, family: Family, rows: Sequence[Problem], n: int) -> np.ndarray:
    """The mean reward of `n` samples at the recipe's temperature of each row, shape (rows,)."""
    recipe = family.recipe
    return sampled_rewards(
        model,
        tokenizer,
        rows,
        Reward(family.name, verify_with(family)),
        environment=family if isinstance(family, EpisodeFamily) else None,
        samples=n,
        settings=SamplingSettings(recipe.max_completion_length, recipe.temperature),
    ).mean(axis=1)

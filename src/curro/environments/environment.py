"""What an environment is to the rest, and an episode whose mistakes are told with the prompt's name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from curro.errors import EnvironmentFailure
from curro.reward.reward import Reward, Row, Score, key

EPISODE_REWARD = "episode_reward"
"""The column in which an episode's reward reaches the reward function."""

T = TypeVar("T")


class Episode(Protocol):
    """One rollout of a prompt, with a state of its own."""

    def step(self, action: str) -> str | None:
        """Execute what the model wrote, any text at all; the observation, or None where the episode ends."""

    def reward(self) -> float | None:
        """Of the whole trajectory, asked for once after it; None for one that is not scored."""


class Environment(Protocol):
    """Starts episodes.

    Attributes:
        turns: actions of an episode, at most.
        turn_tokens: tokens of an action, at most, with its end of sequence. An action that is cut off ends
            the episode and is not executed.
    """

    @property
    def turns(self) -> int: ...
    @property
    def turn_tokens(self) -> int: ...

    def start(self, row: Row, seed: int) -> Episode:
        """An episode of the prompt `row`.

        Args:
            row: of the data set, with `prompt`, `answer`, `key` and its other columns.
            seed: for whatever is random in the environment, 0 to 2**32 - 1. The rollouts of a group have
                the same, so that they start alike and their rewards can be compared.
        """


class Watched:
    """An episode that fails with an error which names the environment and the prompt.

    Raises:
        EnvironmentFailure: from any method whose own one raises, or gives what it must not.
    """

    def __init__(self, environment: Environment, row: Row, seed: int) -> None:
        self.name, self.row = type(environment).__name__, row
        self.episode: Episode = self._call("start", lambda: environment.start(row, seed))

    def step(self, action: str) -> str | None:
        observation = self._call("step", lambda: self.episode.step(action))
        if observation is not None and not isinstance(observation, str):
            raise self._failure("step", f"gave {observation!r:.50}, which is neither text nor None")
        return observation

    def reward(self) -> Score:
        return self._call("reward", self.episode.reward)

    def _call(self, method: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except Exception as error:
            raise self._failure(method, f"failed with {type(error).__name__}: {error}") from error

    def _failure(self, method: str, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"environment {self.name}: {method} {what}, for the prompt {key(self.row)}: "
            "an environment answers whatever a model writes"
        )


def episode_seed(row: Row, *labels: Any) -> int:
    """The seed of the episodes of a prompt: the same labels (a run's seed, the step) give the same."""
    told = json.dumps([row.get("key"), row["prompt"], *labels], default=str)
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=4).digest())


def episode_reward(name: str) -> Reward:
    """The reward of the rows of played episodes: what their environment gave."""

    def verify(completions: Any, rows: Any) -> list[Score]:
        return [row[EPISODE_REWARD] for row in rows]

    return Reward(name, verify)

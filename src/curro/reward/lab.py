"""A lab family's own scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from curro.reward.reward import Row, Score

if TYPE_CHECKING:
    from curro.lab.family import Family

Verify = Callable[[Sequence[str], Sequence[Row]], list[Score]]


def load(name: str) -> Verify:
    """The batch verifier of the lab family `name`.

    Raises:
        ConfigError: there is no such family.
    """
    from curro import lab

    return reward_of(lab.family(name))


def reward_of(family: Family) -> Verify:
    """The family's scores of texts; of episodes, those that its environment gave."""
    from curro.environments.environment import EPISODE_REWARD

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        return [
            row[EPISODE_REWARD] if EPISODE_REWARD in row else family.score(completion, row)
            for completion, row in zip(completions, rows, strict=True)
        ]

    return verify

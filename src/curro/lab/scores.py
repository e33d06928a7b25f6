"""A family's scores as a reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curro.environments.environment import EPISODE_REWARD
from curro.lab.family import Family, Row

Verify = Callable[[Sequence[str], Sequence[Row]], list[float | None]]


def verify_with(family: Family) -> Verify:
    """The family's scores of texts; of episodes, those that its environment gave."""

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[float | None]:
        return [
            row[EPISODE_REWARD] if EPISODE_REWARD in row else family.score(completion, row)
            for completion, row in zip(completions, rows, strict=True)
        ]

    return verify

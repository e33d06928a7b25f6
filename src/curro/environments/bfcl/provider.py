"""BFCL under its names: `bfcl:base`, `bfcl:miss_func`, `bfcl:miss_param`, `bfcl:long_context`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curro.environments.bfcl.environment import Bfcl
from curro.environments.bfcl.tasks import CATEGORIES, rows
from curro.environments.environment import EPISODE_REWARD
from curro.errors import ConfigError
from curro.reward.reward import Row, Score


class BfclTasks:
    """A `curro.providers.Provider` of BFCL's multi-turn conversations and their environment.

    Raises:
        ConfigError: from every method, for a name that there is not, or without bfcl-eval.
    """

    def problems(self, name: str, split: str, limit: int | None) -> list[dict[str, Any]]:
        return rows(name, split, limit)

    def verify(self, name: str) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
        """The scores that the environment gave."""
        if name not in CATEGORIES:
            raise ConfigError(f"BFCL has no multi-turn category {name!r}; there are: {', '.join(CATEGORIES)}")
        return _episode_scores

    def environment(self, name: str) -> Bfcl:
        return Bfcl()

    def model(self, name: str) -> tuple[Any, Any]:
        raise ConfigError("BFCL brings no models: name a folder or a hub id")


def _episode_scores(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    if any(EPISODE_REWARD not in row for row in rows):
        raise ConfigError("BFCL's conversations are played turn by turn: use `curro train`")
    return [row[EPISODE_REWARD] for row in rows]

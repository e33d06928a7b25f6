"""The rows that the curriculum has drawn, as verl's data loader wants to be told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils.data import Sampler

from curro.errors import ConfigError


class DrawnRows(Sampler[int]):
    """Gives the rows of the latest draw, in its order; never comes to an end.

    Args:
        size: the number of rows of the data set.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: deque[int] = deque()

    def put(self, rows: Iterable[int]) -> None:
        """The rows of a draw, to be loaded next."""
        self.rows.clear()
        self.rows.extend(int(row) for row in rows)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self.rows:
            raise ConfigError("the data loader asks for more prompts than were drawn: report this to curro")
        return self.rows.popleft()

    def state_dict(self) -> dict[str, Any]:
        """Nothing: between draws no row is left; the data loader must not skip what it has loaded before."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""

"""The rejected groups that top a short batch up: the most informative ones, no more than it could take."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

GroupT = TypeVar("GroupT")


@dataclass(order=True)
class _Rejected(Generic[GroupT]):
    """A rejected group in a heap whose first entry is the least informative, of equal ones the last drawn."""

    informativeness: float
    minus_ticket: int
    group: GroupT = field(compare=False)


class RejectedGroups(Generic[GroupT]):
    """The best rejected groups of a batch.

    Args:
        weigh: what a group counts for in the size of a batch.
    """

    def __init__(self, weigh: Callable[[GroupT], int]) -> None:
        self.weigh = weigh
        self._heap: list[_Rejected[GroupT]] = []
        self._size = 0

    def add(self, ticket: int, group: GroupT, informativeness: float, missing: int) -> None:
        """Keep a group, and let go of those that the others make needless.

        Args:
            missing: what the batch still lacks.
        """
        heapq.heappush(self._heap, _Rejected(informativeness, -ticket, group))
        self._size += self.weigh(group)
        while self._heap and self._size - self.weigh(self._heap[0].group) >= missing:
            self._size -= self.weigh(heapq.heappop(self._heap).group)

    def best(self) -> list[GroupT]:
        """The groups that were kept, the most informative first."""
        return [one.group for one in sorted(self._heap, reverse=True)]

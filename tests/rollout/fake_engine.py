"""An engine that does what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from curro import Choice, Reason, Selection
from curro.rollout.engines.engine import Prompt, Rollout


class FakeEngine:
    """An engine that answers with `answer(prompt, n)`.

    Attributes:
        running, most: calls now, and the most at a time.
        calls: (prompt, n) of every call.
        cancelled: prompts whose calls were cancelled.
        busy: seconds that calls took, all together.
    """

    def __init__(self, answer: Callable[[Prompt, int], Awaitable[Sequence[Rollout]]]) -> None:
        self.answer = answer
        self.running = self.most = 0
        self.calls: list[tuple[Prompt, int]] = []
        self.cancelled: list[Prompt] = []
        self.busy = 0.0

    async def generate(self, prompt: Prompt, n: int) -> Sequence[Rollout]:
        self.calls.append((prompt, n))
        self.running += 1
        self.most = max(self.most, self.running)
        since = asyncio.get_running_loop().time()
        try:
            return await self.answer(prompt, n)
        except asyncio.CancelledError:
            self.cancelled.append(prompt)
            raise
        finally:
            self.running -= 1
            self.busy += asyncio.get_running_loop().time() - since

    async def close(self) -> None:
        pass


def rollouts(text: str) -> list[Rollout]:
    """A rollout for each character: 1 right, 0 wrong, x failed, a blank an empty text."""
    return [
        Rollout("", error="failed") if mark == "x" else Rollout(mark.strip(), finish="length")
        for mark in text
    ]


async def by_text(prompt: int, rollouts: Sequence[Rollout]) -> list[float]:
    """Scores what `rollouts` makes."""
    return [float(rollout.text == "1") for rollout in rollouts]


class InOrder(Selection):
    """Prompts 0, 1, 2, ... and over again; those in flight miss their turn."""

    next = 0

    def select(self, n: int, step: int) -> Choice:
        taken: list[int] = []
        while len(taken) < n:
            if not self.table["in_flight"][self.next] and self.next not in taken:
                taken.append(self.next)
            self.next = (self.next + 1) % self.table.size
        return Choice.of(np.array(taken), Reason.UNIFORM)

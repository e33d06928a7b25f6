"""Engines that do what a test says, and fillers over them in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from curro import Choice, Curriculum, Reason, Selection
from curro.rollout.engines.engine import Prompt, Rollout
from curro.rollout.fill_settings import FillSettings
from curro.rollout.filler import Filler

GOOD, EASY, HARD = "1100", "1111", "0000"


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


def make(plan, *, prompts=20, score=by_text, curriculum=None, **options):
    """A filler over an engine that answers prompt i with `plan(i, n)` = (seconds, marks or an error)."""
    curriculum = curriculum or Curriculum(InOrder(), prompts, admission="band:0,1")

    async def answer(prompt, n):
        seconds, marks = plan(int(prompt), n)
        await asyncio.sleep(seconds)
        if isinstance(marks, Exception):
            raise marks
        return rollouts(marks) if isinstance(marks, str) else marks

    engine = FakeEngine(answer)
    options = {"rollouts_per_prompt": 4, "max_in_flight": 4} | options
    settings = {name: options.pop(name) for name in ("limit", "when_short") if name in options}
    options["fill"] = FillSettings(**({"when_short": "error"} | settings))
    return Filler(curriculum, engine, str, score, **options), engine, curriculum


def settled(filler, curriculum):
    """Asserts that the counts agree with the curriculum's and returns them."""
    counts, port = filler.counts, curriculum.metrics()
    assert counts.given_out == counts.admitted + counts.rejected + counts.dropped + filler.in_flight
    assert port["selected"] == counts.given_out + counts.repeats
    assert port["observed"] == counts.admitted + counts.rejected
    assert port["dropped"] == counts.dropped + counts.repeats
    assert port["in_flight"] == filler.in_flight
    assert port["admitted"] == counts.admitted
    return counts

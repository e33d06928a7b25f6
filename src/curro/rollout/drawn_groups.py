"""The groups that a filler has drawn and not started: one, or with a budget to divide those of a batch."""

from __future__ import annotations

import asyncio
from collections import deque

from curro.curriculum import Curriculum
from curro.draws import Draw
from curro.errors import ExhaustedError
from curro.rollout.fill import Fill
from curro.rollout.fresh_draws import draw_fresh
from curro.rollout.group import Group
from curro.rollout.group_tasks import wait_for_all


class DrawnGroups:
    """Draws prompts when it has none left.

    A method that asks the policy may wait for it as long as for rollouts, so it chooses in a thread of its
    own while groups go on. Nothing is settled meanwhile: the draws are those that would have come without.

    Args:
        curriculum: draws the prompts.
        fill: counts the groups that are given out.
        rollouts_per_prompt: the size of a group; with a budget to divide, the mean size of those of a draw.
    """

    def __init__(self, curriculum: Curriculum, fill: Fill[Group], rollouts_per_prompt: int) -> None:
        self.curriculum, self.fill, self.rollouts_per_prompt = curriculum, fill, rollouts_per_prompt
        self._queued: deque[Group] = deque()

    async def next(self) -> Group | None:
        """The next group; None where the prompts of the batch have run out."""
        if not self._queued:
            await self._draw()
        return self._queued.popleft() if self._queued else None

    def take_rest(self) -> list[Group]:
        """The groups that were drawn and not asked for, which are the caller's to drop."""
        rest = list(self._queued)
        self._queued.clear()
        return rest

    async def _draw(self) -> None:
        if not self.curriculum.selection.needs_policy:
            self._queue(self._select())
            return
        drawing = asyncio.ensure_future(asyncio.to_thread(self._select))
        try:
            await wait_for_all([drawing])
        except asyncio.CancelledError:
            if drawing.exception() is None:  # its tickets are open, and `take_rest` has to find them
                self._queue(drawing.result())
            raise
        self._queue(drawing.result())

    def _select(self) -> Draw | None:
        fill, size, curriculum = self.fill, self.rollouts_per_prompt, self.curriculum
        try:
            if curriculum.has_allocation and curriculum.allocation.needs_budget:
                n = int(max(1, min(fill.n, fill.untried)))
                return draw_fresh(curriculum, fill, n, step=fill.step, rollouts=n * size)
            return draw_fresh(curriculum, fill, 1, step=fill.step)
        except ExhaustedError:
            return None

    def _queue(self, draw: Draw | None) -> None:
        if draw is None:
            return
        alike = [self.rollouts_per_prompt] * len(draw)
        sizes = draw.rollouts.tolist() if self.curriculum.has_allocation else alike
        rows = zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes, strict=True)
        self._queued += [Group(prompt, ticket, draw.step, number) for prompt, ticket, number in rows]

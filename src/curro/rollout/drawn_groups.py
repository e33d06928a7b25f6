"""The groups that a filler has drawn and not started: one, or with a budget to divide those of a batch."""

from __future__ import annotations

from collections import deque

from curro.curriculum import Curriculum
from curro.errors import ExhaustedError
from curro.rollout.fill import Fill
from curro.rollout.fresh_draws import draw_fresh
from curro.rollout.group import Group


class DrawnGroups:
    """Draws prompts when it has none left.

    Args:
        curriculum: draws the prompts.
        fill: counts the groups that are given out.
        rollouts_per_prompt: the size of a group; with a budget to divide, the mean size of those of a draw.
    """

    def __init__(self, curriculum: Curriculum, fill: Fill[Group], rollouts_per_prompt: int) -> None:
        self.curriculum, self.fill, self.rollouts_per_prompt = curriculum, fill, rollouts_per_prompt
        self._queued: deque[Group] = deque()

    def next(self) -> Group | None:
        """The next group; None where the prompts of the batch have run out."""
        if not self._queued:
            self._draw()
        return self._queued.popleft() if self._queued else None

    def take_rest(self) -> list[Group]:
        """The groups that were drawn and not asked for, which are the caller's to drop."""
        rest = list(self._queued)
        self._queued.clear()
        return rest

    def _draw(self) -> None:
        fill, size, curriculum = self.fill, self.rollouts_per_prompt, self.curriculum
        try:
            if curriculum.has_allocation and curriculum.allocation.needs_budget:
                n = int(max(1, min(fill.n, fill.untried)))
                draw = draw_fresh(curriculum, fill, n, step=fill.step, rollouts=n * size)
            else:
                draw = draw_fresh(curriculum, fill, 1, step=fill.step)
        except ExhaustedError:
            return
        sizes = draw.rollouts.tolist() if curriculum.has_allocation else [size] * len(draw)
        rows = zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes, strict=True)
        self._queued += [Group(prompt, ticket, fill.step, number) for prompt, ticket, number in rows]

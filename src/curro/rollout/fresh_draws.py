"""Draws prompts that the batch under way has not had yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from curro.draws import Draw, joined
from curro.errors import ExhaustedError
from curro.rollout.fill import Fill


class Port(Protocol):
    """A `Curriculum`, or what passes calls on to one."""

    def select(self, n: int, *, step: int, rollouts: int | None = None) -> Draw: ...

    def drop(self, tickets: Any) -> None: ...


def draw_fresh(port: Port, fill: Fill[Any], n: int, *, step: int, rollouts: int | None = None) -> Draw:
    """As `Curriculum.select`, but no prompt that was given out for the batch before; gives the draw out.

    A prompt is free as soon as its group is observed, and methods that look for the most informative prompts
    would choose those that have just been admitted again. The ticket of such a prompt is held, and another
    prompt is drawn, with its rollouts where there is a budget.

    Raises:
        ExhaustedError: fewer than n prompts are free that the batch has not had. Nothing was given out.
    """
    if n > fill.untried:
        fill.exhausted = True
        raise ExhaustedError(
            f"{n} prompts were asked for that the batch of step {step} has not had, and it has had all but "
            f"{fill.untried:g} of {fill.size}: take smaller batches or more data"
        )
    parts: list[Draw] = []
    missing, budget = n, rollouts
    while missing:
        try:
            draw = port.select(missing, step=step, **({} if budget is None else {"rollouts": budget}))
        except BaseException as error:
            taken = [ticket for part in parts for ticket in part.tickets.tolist()]
            if taken:
                port.drop(taken)
            fill.exhausted = isinstance(error, ExhaustedError)
            raise
        again_P = fill.has_had(draw.prompts.tolist())
        fill.hold(draw.tickets[again_P].tolist())
        parts.append(draw.take(~again_P) if again_P.any() else draw)
        missing = int(again_P.sum())
        budget = None if budget is None else int(draw.rollouts[again_P].sum())
    fresh = parts[0] if len(parts) == 1 else joined(parts)
    fill.give_out(fresh)
    return fresh


def sized(draw: Draw, size: int) -> Draw:
    """The draw, with groups of this size where the curriculum leaves the number of rollouts to the host."""
    return draw if draw.rollouts.any() else replace(draw, rollouts=np.full(len(draw), size))

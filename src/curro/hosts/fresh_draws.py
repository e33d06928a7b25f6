"""Draws for a batch that is filled in several goes: no prompt is given out for it twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Protocol

import numpy as np

from curro.curriculum import Draw
from curro.errors import ExhaustedError


class Source(Protocol):
    """What prompts are drawn from."""

    def select(self, n: int, *, step: int) -> Draw: ...


class Port(Source, Protocol):
    """A `Curriculum`, or what passes calls on to one."""

    def drop(self, tickets: list[int]) -> None: ...


class FreshDraws:
    """Draws prompts that the batch under way has not had yet.

    A prompt is free as soon as its group is observed, and methods that look for the most informative ones
    would choose those that have just been admitted again. The ticket of a prompt that was given out before
    is held, or it could be drawn for ever, and dropped when the batch is complete.

    Attributes:
        given: the prompts that were given out for the batch, by their tickets.
        held: open tickets of prompts that were drawn again.
        repeats: prompts drawn again since the batch began.

    Args:
        port: draws, and drops tickets.
        size: of the data set.
        may_repeat: the selection repeats prompts (`Selection.repeats`): nothing is held back.
    """

    def __init__(self, port: Port, size: int, *, may_repeat: bool) -> None:
        self.port, self.size, self.may_repeat = port, size, may_repeat
        self.given: dict[int, int] = {}
        self.held: list[int] = []
        self.repeats = 0

    def begin(self, waiting: Iterable[int] = ()) -> None:
        """A new batch, which groups of earlier draws, by their tickets, may come into."""
        self.end()
        self.given = {ticket: self.given[ticket] for ticket in waiting if ticket in self.given}
        self.repeats = 0

    def end(self) -> None:
        """The batch is complete, or given up: drop what is held."""
        held, self.held = self.held, []
        if held:
            self.port.drop(held)

    def select(self, n: int, *, step: int) -> Draw:
        """As `Curriculum.select`.

        Raises:
            ExhaustedError: fewer than n prompts are free that the batch has not had; nothing was selected.
        """
        if self.may_repeat:
            return self.port.select(n, step=step)
        parts: list[Draw] = []
        missing = n
        while missing:
            try:
                draw = self.port.select(missing, step=step)
            except BaseException as error:
                taken = [ticket for part in parts for ticket in part.tickets.tolist()]
                if taken:
                    self.port.drop(taken)
                if isinstance(error, ExhaustedError) and self.given:
                    raise ExhaustedError(
                        f"{n} prompts were asked for that the batch of step {step} has not had, and "
                        f"{len(set(self.given.values()))} of {self.size} have been given out for it: take "
                        "smaller batches or more data, or train on more of the groups"
                    ) from error
                raise
            again_P = np.isin(draw.prompts, list(self.given.values()))
            self.held += draw.tickets[again_P].tolist()
            self.repeats += int(np.count_nonzero(again_P))
            parts.append(_rows(draw, ~again_P))
            missing -= len(parts[-1])
        fresh = _joined(parts)
        self.given |= zip(fresh.tickets.tolist(), fresh.prompts.tolist(), strict=True)
        return fresh


_ARRAYS = [one.name for one in fields(Draw) if one.name != "step"]


def _rows(draw: Draw, kept_P: np.ndarray) -> Draw:
    return replace(draw, **{name: getattr(draw, name)[kept_P] for name in _ARRAYS})


def _joined(draws: list[Draw]) -> Draw:
    columns = {name: np.concatenate([getattr(draw, name) for draw in draws]) for name in _ARRAYS}
    return Draw(**columns, step=draws[0].step)

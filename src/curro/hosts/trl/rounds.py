"""The fill in rounds: roll out as many rows as are missing, keep the groups that are admitted, and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from curro.draws import Draw
from curro.errors import ExhaustedError
from curro.rollout.fill import Fill
from curro.verdicts import Verdict

GroupT = TypeVar("GroupT")
KeptT = TypeVar("KeptT", covariant=True)


@dataclass(frozen=True)
class Settled(Generic[KeptT]):
    """Groups that the curriculum has observed.

    Attributes:
        verdict: what the curriculum said of them.
        rewards: float64 (P,), their mean rewards.
        groups: what is kept of each for the batch.
    """

    verdict: Verdict
    rewards: np.ndarray
    groups: Sequence[KeptT]


class Engine(Protocol[KeptT]):
    """What the loop asks of the trainer; every process is given the same answers."""

    def draw(self, rows: int) -> Draw:
        """New groups for about so many rows, given out to the fill; raises ExhaustedError."""
        ...

    def roll_out(self, numbers: Mapping[int, int]) -> None:
        """Generate and score so many rollouts of each of these open tickets."""
        ...

    def more(self, tickets: Sequence[int]) -> Sequence[int]:
        """How many further rollouts each of these open tickets is to get."""
        ...

    def settle(self, tickets: Sequence[int]) -> Settled[KeptT]:
        """Observe these groups."""
        ...

    def drop(self, tickets: Sequence[int]) -> None:
        """Settle what is still open of these tickets."""
        ...


def fill_in_rounds(
    fill: Fill[GroupT],
    rows: int,
    step: int,
    engine: Engine[GroupT],
    *,
    processes: int,
    keep: int | None = None,
) -> list[GroupT]:
    """Groups that have `rows` rows, or a few more, because the last one need not fit.

    A round rolls out what open groups are to get and, in the rows that are left, new groups. A group that
    wants more than the rows that are left gets those, and then it ends. Every process runs this loop on the
    same draws and verdicts, so all end with the same batch. A round's rows are divided equally among the
    processes, so it may have a few more rows than are missing. Groups that are not needed would be a step old
    in the next batch, and are left out of it. No group goes on once the limit's rows were generated.

    Args:
        fill: counts rows.
        keep: how many rows of a group come into the batch at most; None: all.

    Raises:
        FillError: the batch is short, and the fill's settings say that this is an error.
    """
    fill.begin(rows, step, waiting=())
    sizes: dict[int, int] = {}
    numbers: dict[int, int] = {}
    generated = 0
    while fill.missing:
        try:
            after = {ticket: size + numbers.get(ticket, 0) for ticket, size in sizes.items()}
            free = fill.missing - _rows(after, keep)
            if free > 0 and not fill.reason:
                numbers |= _new(fill, engine, free)
            if not numbers:
                break
            _round_up(numbers, processes)
            engine.roll_out(numbers)
            for ticket, number in numbers.items():
                sizes[ticket] = sizes.get(ticket, 0) + number
            generated += sum(numbers.values())
            wanted, numbers = engine.more(list(sizes)), {}
            if generated < fill.settings.limit * rows:
                numbers = _granted(sizes, wanted, fill.missing - _rows(sizes, keep), keep)
            ended = [ticket for ticket in sizes if ticket not in numbers]
            if ended:
                _sort(fill, ended, engine.settle(ended))
            for ticket in ended:
                del sizes[ticket]
        except BaseException:
            lost = list(fill.in_flight)
            for ticket in lost:
                fill.lose(ticket, "failed")
            engine.drop(lost)
            raise
    return fill.take()


def _new(fill: Fill[Any], engine: Engine[Any], rows: int) -> dict[int, int]:
    """Rollouts of new groups, by ticket; none where the prompts have run out."""
    try:
        draw = engine.draw(rows)
    except ExhaustedError:  # or others have the rest of the prompts in flight
        fill.exhausted = True
        return {}
    return dict(zip(draw.tickets.tolist(), draw.rollouts.tolist(), strict=True))


def _round_up(numbers: dict[int, int], processes: int) -> None:
    """Give the first groups one rollout more, so that each process has equally many."""
    tickets = list(numbers)
    for i in range(-sum(numbers.values()) % processes):
        numbers[tickets[i % len(tickets)]] += 1


def _rows(sizes: Mapping[int, int], keep: int | None) -> int:
    """How many rows groups of these sizes have in the batch."""
    return sum(size if keep is None else min(size, keep) for size in sizes.values())


def _granted(sizes: Mapping[int, int], wanted: Sequence[int], free: int, keep: int | None) -> dict[int, int]:
    """How many further rollouts groups get, those that go on: the first ones what they want.

    Rollouts beyond `keep` take no rows.
    """
    granted: dict[int, int] = {}
    for (ticket, size), number in zip(sizes.items(), wanted, strict=True):
        room = np.inf if keep is None else max(0, keep - size)
        number = int(number if room <= free else min(number, free))
        if number > 0:
            granted[ticket] = number
            free -= int(min(number, room))
    return granted


def _sort(fill: Fill[Any], tickets: Sequence[int], done: Settled[Any]) -> None:
    """Report groups that ended to the fill."""
    for row, (ticket, group) in enumerate(zip(tickets, done.groups, strict=True)):
        if done.verdict.admitted[row]:
            fill.admit(ticket, group)
        else:
            variance = float(done.verdict.informativeness[row])
            fill.reject(ticket, group, informativeness=variance, reward=float(done.rewards[row]))

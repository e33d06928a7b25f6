"""The fill in rounds: roll out as many rows as are missing, keep the groups that are admitted, and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from curro.errors import ExhaustedError
from curro.hosts.trl.batches import (
    Generated,
    KeptGroup,
    Logs,
    Metrics,
    Rows,
    captured_logs,
    check_mergeable,
    cut,
    rows_of,
)
from curro.hosts.trl.observe import GroupObserver
from curro.hosts.trl.owner import on_owner
from curro.rollout.fill import Fill, draw_fresh, sized
from curro.rollout.group_tasks import release
from curro.runs.writer import Completion
from curro.verdicts import Draw, Verdict, joined

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


@dataclass
class OpenGroup:
    """A group whose ticket is open.

    Attributes:
        draw: of this one prompt.
        rows: its rows of TRL's outputs so far, in parts that were padded alike.
        rewards: (rollouts, reward functions) a round, NaN where a function returned None.
        logs: what TRL logs of its rows, by name.
        completions: what was generated, a row each.
    """

    draw: Draw
    rows: list[Rows] = field(default_factory=list)
    rewards: list[torch.Tensor] = field(default_factory=list)
    logs: Logs = field(default_factory=dict)
    completions: list[Completion] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(part) for part in self.rewards)

    def closed(self, verdict: Verdict) -> KeptGroup:
        """What is trained on of the group, with the curriculum's verdict of it."""
        group = KeptGroup(self.rows, torch.cat(self.rewards), self.logs, verdict)
        kept_G = verdict.kept[0, : len(group)]
        return group if kept_G.all() else group.take(np.flatnonzero(kept_G))


class OpenGroups:
    """The open groups of a batch, by ticket."""

    def __init__(self) -> None:
        self._groups: dict[int, OpenGroup] = {}

    def start(self, draw: Draw) -> None:
        """Open the groups of a draw."""
        for row, ticket in enumerate(draw.tickets.tolist()):
            self._groups[ticket] = OpenGroup(draw.take([row]))

    def prompts(self, numbers: Mapping[int, int]) -> list[int]:
        """The prompts of a round, one a row, for so many rollouts of each ticket."""
        return [
            int(self._groups[ticket].draw.prompts[0])
            for ticket, number in numbers.items()
            for _ in range(number)
        ]

    def add(
        self,
        numbers: Mapping[int, int],
        rows: Sequence[Rows],
        rewards: torch.Tensor,
        logs: Logs,
        completions: Sequence[Completion],
    ) -> None:
        """Add the rollouts of a round.

        Args:
            numbers: how many of each ticket, in the order of the rows.
            rows: the rows of every process, in the order of the processes.
            rewards, logs, completions: of all of them.
        """
        start = 0
        for ticket, number in numbers.items():
            group, stop = self._groups[ticket], start + number
            group.rows += cut(rows, start, stop)
            group.rewards.append(rewards[start:stop].cpu())
            group.completions += completions[start:stop]
            for name, values in logs.items():
                group.logs.setdefault(name, []).extend(values[start:stop])
            start = stop

    def sizes(self, tickets: Sequence[int]) -> np.ndarray:
        """How many rollouts each group has so far, int64 (P,)."""
        return np.array([len(self._groups[ticket]) for ticket in tickets])

    def rewards(self, tickets: Sequence[int]) -> torch.Tensor:
        """(rollouts, reward functions) of these groups, one after the other."""
        return torch.cat([part for ticket in tickets for part in self._groups[ticket].rewards])

    def completions(self, tickets: Sequence[int]) -> list[Completion]:
        """What was generated of these groups, one after the other."""
        return [one for ticket in tickets for one in self._groups[ticket].completions]

    def drawn(self, tickets: Sequence[int]) -> Draw:
        """As these groups were drawn, with the rollouts that each has."""
        parts = [self._groups[ticket].draw for ticket in tickets]
        return replace(joined(parts), rollouts=self.sizes(tickets))

    def close(self, tickets: Sequence[int], verdict: Verdict) -> list[KeptGroup]:
        """The groups of these tickets, which are open no more."""
        return [self._groups.pop(ticket).closed(verdict.take(row)) for row, ticket in enumerate(tickets)]


class RoundEngine:
    """Rolls out the groups of one batch; see `curro.hosts.trl.rounds.Engine`.

    Args:
        accelerator: the trainer's.
        fill: counts the groups that are given out.
        observer: reports finished groups to its curriculum.
        roll_out_prompts: generates and scores one rollout of each prompt of all processes.
        size: rollouts of a group, where the curriculum does not divide a budget.
        step: the training step.
        metrics, logs: TRL's `_metrics` and `_logs`.

    Attributes:
        written: what TRL wrote in all rounds, by metric.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        fill: Fill[KeptGroup],
        observer: GroupObserver,
        roll_out_prompts: Callable[[list[int]], Generated],
        *,
        size: int,
        step: int,
        metrics: dict[str, Metrics],
        logs: dict[str, Any],
    ) -> None:
        self.accelerator, self.fill, self.observer = accelerator, fill, observer
        self.curriculum, self.roll_out_prompts = observer.curriculum, roll_out_prompts
        self.size, self.step, self.metrics, self.logs = size, step, metrics, logs
        self.written: Metrics = defaultdict(list)
        self._open = OpenGroups()

    def draw(self, rows: int) -> Draw:
        """New groups for about so many rows."""
        drawn = on_owner(self.accelerator, lambda: self._draw(rows))
        if not self.accelerator.is_main_process:
            self.fill.give_out(drawn)
        self._open.start(drawn)
        return drawn

    def roll_out(self, numbers: Mapping[int, int]) -> None:
        """Generate and score so many rollouts of each of these open tickets."""
        with captured_logs(self.metrics, self.logs) as (metrics, logs):
            generated = self.roll_out_prompts(self._open.prompts(numbers))
        check_mergeable(generated.output)
        for name, values in metrics.items():
            self.written[name] += values
        rows = gather_object([rows_of(generated.output)])
        self._open.add(numbers, rows, generated.rewards, logs, generated.completions)

    def more(self, tickets: Sequence[int]) -> Sequence[int]:
        """How many further rollouts each of these open tickets is to get."""
        if self.curriculum.allocation.needs_budget:
            return [0] * len(tickets)
        return self.observer.more(tickets, self._open.rewards(tickets), self._open.sizes(tickets))

    def settle(self, tickets: Sequence[int]) -> Settled[KeptGroup]:
        """Observe these groups."""
        drawn, rewards = self._open.drawn(tickets), self._open.rewards(tickets)
        verdict = self.observer.observe(drawn, rewards, self._open.completions(tickets), self.step)
        means_P = self.observer.report(rewards, drawn.rollouts).means
        return Settled(verdict, means_P, self._open.close(tickets, verdict))

    def drop(self, tickets: Sequence[int]) -> None:
        """Settle what is still open of these tickets."""
        if self.accelerator.is_main_process:
            release(self.curriculum, tickets)

    def _draw(self, rows: int) -> Draw:
        """Runs on the owner; as `draw`."""
        curriculum, fill, size = self.curriculum, self.fill, self.size
        processes, untried, budget = self.accelerator.num_processes, fill.untried, None
        number = -(-rows // size)
        if not curriculum.has_allocation:
            number = int(min(-(-number // processes), untried // processes)) * processes
        elif curriculum.allocation.needs_budget:
            number = int(min(number, untried))
            budget = -(-number * size // processes) * processes
        else:
            first, keep = curriculum.allocation.first, curriculum.allocation.keep
            number = int(min(max(1, rows // min(first, keep or first)), fill.n // size, untried))
        if not number:
            raise ExhaustedError(fill.explain("prompts"))
        return sized(draw_fresh(curriculum, fill, number, step=self.step, rollouts=budget), size)

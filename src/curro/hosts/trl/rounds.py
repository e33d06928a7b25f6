"""The fill in rounds: roll out as many rows as are missing, keep the groups that are admitted, and again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from curro.core.errors import ExhaustedError
from curro.core.verdicts import Draw, Verdict, joined
from curro.hosts.trl.batches import (
    GeneratedRollouts,
    GroupLogs,
    KeptGroup,
    OutputRows,
    TRLMetrics,
    captured_logs,
    check_mergeable,
    cut,
    rows_of,
)
from curro.hosts.trl.observe import GroupObserver
from curro.rollout.fill import Fill, select_unseen, sized
from curro.rollout.group_tasks import release
from curro.runs.writer import Completion


def fill_in_rounds(rounds: Rounds, rows: int) -> list[KeptGroup]:
    """Groups that have `rows` rows, or a few more, because the last one need not fit.

    Raises:
        FillError: the batch is short, and the fill's settings say that this is an error.
    """
    # TRL generates in calls that all processes make together: there is no engine to which groups could be
    # sent one by one, so that rejected groups are replaced when a round has ended, not as soon as they end.
    # A round starts no more than is missing, because what is left over would be a step old in the next batch.
    # Every process runs this loop, on the owner's draws and verdicts: a process that left the loop before the
    # others would let them wait for ever, so every round is divided equally.
    fill = rounds.fill
    fill.begin(rows, rounds.step, waiting=())
    while fill.missing and not fill.reason:
        try:
            sizes = rounds.start(fill.missing)
            if not sizes:
                break
            _round_up(sizes, rounds.processes)
            rounds.roll_out(sizes)
            if further := rounds.more(list(sizes), fill.missing - sum(sizes.values())):
                _round_up(further, rounds.processes)
                rounds.roll_out(further)
            rounds.settle(list(sizes))
        except BaseException:
            rounds.give_up()
            raise
    return fill.take()


def _round_up(sizes: dict[int, int], processes: int) -> None:
    """Give the first groups one rollout more, so that each process has equally many."""
    tickets = list(sizes)
    for i in range(-sum(sizes.values()) % processes):
        sizes[tickets[i % len(tickets)]] += 1


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
    rows: list[OutputRows] = field(default_factory=list)
    rewards: list[torch.Tensor] = field(default_factory=list)
    logs: GroupLogs = field(default_factory=dict)
    completions: list[Completion] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(part) for part in self.rewards)

    def close(self, verdict: Verdict, variance: float) -> KeptGroup:
        """What is trained on of the group, with the curriculum's verdict and its rewards' variance."""
        return KeptGroup(self.rows, torch.cat(self.rewards), self.logs, verdict, variance)


class Rounds:
    """Draws, rolls out and settles the groups of one batch, for `fill_in_rounds`.

    Every process has one and calls the same methods in the same order: the owner's curriculum decides, and
    all processes are told.

    Args:
        fill: counts rows.
        observer: reports finished groups to its curriculum.
        roll_out_prompts: generates and scores one rollout of each prompt, with its ticket, of all processes.
        size: rollouts of a group, where the curriculum leaves that to the host.
        step: the training step.
        metrics, logs: TRL's `_metrics` and `_logs`.

    Attributes:
        written: what TRL wrote in all rounds, by metric.
    """

    def __init__(
        self,
        fill: Fill[KeptGroup],
        observer: GroupObserver,
        roll_out_prompts: Callable[[list[int], list[int]], GeneratedRollouts],
        *,
        size: int,
        step: int,
        metrics: dict[str, TRLMetrics],
        logs: dict[str, Any],
    ) -> None:
        self.fill, self.observer, self.owner = fill, observer, observer.owner
        self.curriculum, self.roll_out_prompts = observer.curriculum, roll_out_prompts
        self.size, self.step, self.metrics, self.logs = size, step, metrics, logs
        self.written: TRLMetrics = defaultdict(list)
        self._open: dict[int, OpenGroup] = {}

    @property
    def processes(self) -> int:
        """How many processes train."""
        return self.owner.accelerator.num_processes

    def start(self, rows: int) -> dict[int, int]:
        """Draw new groups for about so many rows: the first rollouts of each, by ticket.

        None where the prompts have run out, or others have the rest of them in flight.
        """
        try:
            draw = self.owner.decide(lambda: self._draw(rows))
        except ExhaustedError:
            self.fill.exhausted = True
            return {}
        if not self.owner.accelerator.is_main_process:
            self.fill.give_out(draw)
        for row, ticket in enumerate(draw.tickets.tolist()):
            self._open[ticket] = OpenGroup(draw.take([row]))
        return dict(zip(draw.tickets.tolist(), draw.rollouts.tolist(), strict=True))

    def roll_out(self, further: Mapping[int, int]) -> None:
        """Generate and score so many rollouts of each of these open groups, by ticket."""
        prompts = [int(self._open[ticket].draw.prompts[0]) for ticket in further]
        sizes = list(further.values())
        with captured_logs(self.metrics, self.logs) as (metrics, logs):
            generated = self.roll_out_prompts(
                np.repeat(prompts, sizes).tolist(), np.repeat(list(further), sizes).tolist()
            )
        check_mergeable(generated.output)
        for name, values in metrics.items():
            self.written[name] += values
        rows = gather_object([rows_of(generated.output, generated.lengths)])
        start = 0
        for ticket, number in further.items():
            group, stop = self._open[ticket], start + number
            group.rows += cut(rows, start, stop)
            group.rewards.append(generated.rewards[start:stop].cpu())
            group.completions += generated.completions[start:stop]
            for column, entries in logs.items():
                group.logs.setdefault(column, []).extend(entries[start:stop])
            start = stop

    def more(self, tickets: Sequence[int], rows: int) -> dict[int, int]:
        """Further rollouts of groups that were looked at, by ticket, of about so many rows."""
        if not self.curriculum.allocation.looks_first:
            return {}
        feedback = self.observer.feedback(tickets, self._rewards(tickets), self._sizes(tickets))
        further = self.owner.decide(
            lambda: self.curriculum.more(**feedback.arguments(), rollouts=max(rows, 0)).tolist()
        )
        return {ticket: number for ticket, number in zip(tickets, further, strict=True) if number}

    def settle(self, tickets: Sequence[int]) -> None:
        """Observe these groups, and report to the fill what became of them."""
        if not tickets:
            return
        groups = [self._open[ticket] for ticket in tickets]
        rewards, sizes_P = self._rewards(tickets), self._sizes(tickets)
        draw = replace(joined([group.draw for group in groups]), rollouts=sizes_P)
        completions = [completion for group in groups for completion in group.completions]
        verdict = self.observer.observe(draw, rewards, completions, self.step)
        feedback = self.observer.feedback(draw.tickets, rewards, sizes_P)
        closed = [
            group.close(verdict.take(row), variance)
            for row, (group, variance) in enumerate(zip(groups, feedback.variances.tolist(), strict=True))
        ]
        self.fill.settle(feedback, verdict, closed, sizes_P.tolist())
        for ticket in tickets:
            del self._open[ticket]

    def give_up(self) -> None:
        """After an error: nothing of the groups in flight is learned, and their prompts are free again."""
        lost = list(self.fill.in_flight)
        for ticket in lost:
            self.fill.mark_failed(ticket, "failed")
        if self.owner.accelerator.is_main_process:
            release(self.curriculum, lost)

    def _rewards(self, tickets: Sequence[int]) -> torch.Tensor:
        """(rollouts, reward functions) of these groups, one after the other."""
        return torch.cat([part for ticket in tickets for part in self._open[ticket].rewards])

    def _sizes(self, tickets: Sequence[int]) -> np.ndarray:
        """How many rollouts each of these groups has so far, int64 (P,)."""
        return np.array([len(self._open[ticket]) for ticket in tickets])

    def _draw(self, rows: int) -> Draw:
        """New groups for about so many rows, given out to the fill; runs on the owner."""
        curriculum, fill, size = self.curriculum, self.fill, self.size
        processes, untried, budget = self.processes, fill.untried, None
        number = -(-rows // size)
        if not curriculum.has_allocation:
            number = int(min(-(-number // processes), untried // processes)) * processes
        elif curriculum.allocation.needs_budget:
            number = int(min(number, untried))
            budget = -(-number * size // processes) * processes
        else:
            number = int(min(max(1, rows // curriculum.allocation.first), fill.n // size, untried))
        if not number:
            raise ExhaustedError(fill.explain("prompts"))
        return sized(select_unseen(curriculum, fill, number, step=self.step, rollouts=budget), size)

"""The fill in rounds: roll out as many rows as are missing, keep the groups that are admitted, and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from curro.core.errors import ExhaustedError
from curro.core.verdicts import Draw, Verdict
from curro.hosts.trl.observe import by_group
from curro.rollout.fill import select_unseen, sized
from curro.runs.writer import Completion


class RoundEnd(Exception):
    """Leaves TRL's code when a round's rollouts are scored: the rest is for rollouts that are trained on."""


@dataclass
class ScoredRow:
    """A scored rollout of one of a batch's rounds.

    Attributes:
        row: its row of the data set, with the prompt as an environment has completed it.
        generated: its tokens, by the names that TRL's `rollout_func` has for them.
        message: the completion as TRL has parsed it.
        rewards: of each reward function, NaN where it returned None.
        completion: what was generated.
        extra: what reward functions logged of it, by column.
    """

    row: dict[str, Any]
    generated: dict[str, Any]
    message: Any
    rewards: list[float]
    completion: Completion
    extra: dict[str, Any]


@dataclass
class KeptGroup:
    """A group that may be trained on, and the verdict on it."""

    rollouts: list[ScoredRow]
    verdict: Verdict

    def __len__(self) -> int:
        return len(self.rollouts)


def rewards_of(rollouts: Sequence[ScoredRow]) -> torch.Tensor:
    """The rewards (rollouts, functions)."""
    return torch.tensor([rollout.rewards for rollout in rollouts])


def fill_in_rounds(host: Any, rows: int, *, size: int, step: int) -> list[KeptGroup]:
    """Groups that together have as many rows as the batch; the last one is cut where it does not fit.

    TRL generates in calls that all processes make together, so rejected groups are replaced when a round has
    ended, not as soon as they end. A round starts no more than is missing, because what is left over would be
    a step old in the next batch. Every process runs this loop on the main process's draws and verdicts, and
    every round is divided equally: a process that left the loop early would let the others wait for ever.

    After an error no group is in flight for the fill; the host drops the tickets.

    Args:
        host: the trainer, of which `accelerator`, `curriculum`, `fill`, `main_process`, `roll_out_round`,
            `feedback` and `observe` are used.
        rows: of the batch.
        size: rollouts of a group, where the curriculum leaves that to the host.
        step: training steps that have finished.

    Raises:
        FillError: the batch is short, and the fill's settings say that this is an error.
    """
    fill, main = host.fill, host.main_process
    fill.begin(rows, step, waiting=())
    try:
        while fill.missing and not fill.reason:
            try:
                draw = main.decide(lambda: _draw(host, fill.missing, size, step))
            except ExhaustedError:
                fill.exhausted = True
                break
            if not host.accelerator.is_main_process:
                fill.give_out(draw)
            draw = _divisible(draw, host.accelerator.num_processes)
            rollouts = host.roll_out_round(draw)
            if host.curriculum.allocation.looks_first:
                draw, rollouts = _spend(host, draw, rollouts, fill.missing - int(draw.rollouts.sum()))
            feedback = host.feedback(draw.tickets, rewards_of(rollouts), draw.rollouts)
            verdict = host.observe(draw, feedback, [rollout.completion for rollout in rollouts])
            sizes = draw.rollouts.tolist()
            groups = [
                KeptGroup(group, verdict.take(row)) for row, group in enumerate(by_group(rollouts, sizes))
            ]
            fill.settle(feedback, verdict, groups, sizes)
    finally:
        for ticket in list(fill.in_flight):
            fill.mark_failed(ticket, "failed")
        fill.release()
    *whole, last = fill.take()
    return [*whole, replace(last, rollouts=last.rollouts[: rows - sum(map(len, whole))])]


def _spend(host: Any, draw: Draw, rollouts: list[ScoredRow], rows: int) -> tuple[Draw, list[ScoredRow]]:
    """Roll out about `rows` more of the groups that were looked at, as the allocation says."""
    main, feedback = host.main_process, host.feedback(draw.tickets, rewards_of(rollouts), draw.rollouts)
    more_P = np.asarray(
        main.decide(lambda: host.curriculum.more(**feedback.arguments(), rollouts=max(rows, 0)).tolist())
    )
    chosen = np.flatnonzero(more_P)
    if not len(chosen):
        return draw, rollouts
    second = _divisible(replace(draw.take(chosen), rollouts=more_P[chosen]), host.accelerator.num_processes)
    more_P[chosen] = second.rollouts
    first = by_group(rollouts, draw.rollouts.tolist())
    further = by_group(host.roll_out_round(second), more_P.tolist())
    joined = [rollout for parts in zip(first, further, strict=True) for part in parts for rollout in part]
    return replace(draw, rollouts=draw.rollouts + more_P), joined


def _divisible(draw: Draw, processes: int) -> Draw:
    """The draw with one rollout more for its first groups, so that every process has equally many."""
    missing = int(-draw.rollouts.sum() % processes)
    more_P = np.bincount(np.arange(missing) % len(draw), minlength=len(draw))
    return replace(draw, rollouts=draw.rollouts + more_P)


def _draw(host: Any, rows: int, size: int, step: int) -> Draw:
    """Draw new groups for about `rows` rows and give them out to the fill; runs on the main process.

    Raises:
        ExhaustedError: the prompts have run out, or the rest of them are in flight.
    """
    curriculum, fill, processes = host.curriculum, host.fill, host.accelerator.num_processes
    number, untried, budget = -(-rows // size), fill.untried, None
    if not curriculum.has_allocation:
        number = int(min(-(-number // processes), untried // processes)) * processes
    elif curriculum.allocation.needs_budget:
        number = int(min(number, untried))
        budget = -(-number * size // processes) * processes
    else:
        number = int(min(max(1, rows // curriculum.allocation.first), fill.n // size, untried))
    if not number:
        raise ExhaustedError(fill.explain("prompts"))
    return sized(select_unseen(curriculum, fill, number, step=step, rollouts=budget), size)

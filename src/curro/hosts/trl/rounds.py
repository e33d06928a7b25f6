"""The fill in rounds: roll out as many rows as are missing, keep the groups that are admitted, and again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from curro.core.errors import ExhaustedError
from curro.core.verdicts import Draw
from curro.hosts.trl.batches import KeptGroup, ScoredRow, joined, rewards_of
from curro.rollout.fill import select_unseen, sized
from curro.rollout.group_tasks import release


def fill_in_rounds(host: Any, rows: int, *, size: int, step: int) -> list[KeptGroup]:
    """Groups that have `rows` rows, or a few more, because the last one need not fit.

    TRL generates in calls that all processes make together, so rejected groups are replaced when a round has
    ended, not as soon as they end. A round starts no more than is missing, because what is left over would be
    a step old in the next batch. Every process runs this loop on the main process's draws and verdicts, and
    every round is divided equally: a process that left the loop early would let the others wait for ever.

    Args:
        host: the trainer, of which `curriculum`, `fill`, `main_process`, `roll_out_round`, `feedback` and
            `observe` are used.
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
            if not main.is_main:
                fill.give_out(draw)
            draw = _divisible(draw, main.processes)
            rollouts = host.roll_out_round(draw)
            if host.curriculum.allocation.looks_first:
                draw, rollouts = _spend(host, draw, rollouts, fill.missing - int(draw.rollouts.sum()))
            completions = [rollout.completion for rollout in rollouts]
            verdict, feedback = host.observe(draw, rewards_of(rollouts), completions)
            ends, variances = np.cumsum(draw.rollouts).tolist(), feedback.variances.tolist()
            groups = [
                KeptGroup(rollouts[start:end], verdict.take(row), variances[row])
                for row, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
            ]
            fill.settle(feedback, verdict, groups, draw.rollouts.tolist())
    except BaseException:
        lost = list(fill.in_flight)
        for ticket in lost:
            fill.mark_failed(ticket, "failed")
        if main.is_main:
            release(host.curriculum, lost)
        raise
    return fill.take()


def _spend(host: Any, draw: Draw, rollouts: list[ScoredRow], rows: int) -> tuple[Draw, list[ScoredRow]]:
    """Roll out about `rows` more of the groups that were looked at, as the allocation says."""
    main, feedback = host.main_process, host.feedback(draw.tickets, rewards_of(rollouts), draw.rollouts)
    more_P = np.asarray(
        main.decide(lambda: host.curriculum.more(**feedback.arguments(), rollouts=max(rows, 0)).tolist())
    )
    chosen = np.flatnonzero(more_P)
    if not len(chosen):
        return draw, rollouts
    second = _divisible(replace(draw.take(chosen), rollouts=more_P[chosen]), main.processes)
    more_P[chosen] = second.rollouts
    rollouts = joined(rollouts, draw.rollouts.tolist(), host.roll_out_round(second), more_P.tolist())
    return replace(draw, rollouts=draw.rollouts + more_P), rollouts


def _divisible(draw: Draw, processes: int) -> Draw:
    """The draw with one rollout more for its first groups, so that every process has equally many."""
    more_P = np.zeros_like(draw.rollouts)
    missing = int(-draw.rollouts.sum() % processes)
    np.add.at(more_P, np.arange(missing) % len(more_P), 1)
    return replace(draw, rollouts=draw.rollouts + more_P)


def _draw(host: Any, rows: int, size: int, step: int) -> Draw:
    """Draw new groups for about `rows` rows and give them out to the fill; runs on the main process.

    Raises:
        ExhaustedError: the prompts have run out, or the rest of them are in flight.
    """
    curriculum, fill, processes = host.curriculum, host.fill, host.main_process.processes
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

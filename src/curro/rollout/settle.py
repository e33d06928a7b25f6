"""Settles the tickets of a filler's groups: a group is observed by the curriculum, or dropped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from curro.curriculum import Curriculum
from curro.policy import AuxiliarySamples
from curro.rollout.fill import Fill
from curro.rollout.group import Counts, Group


def more(curriculum: Curriculum, group: Group) -> int:
    """How many further rollouts the allocation wants of a group.

    Raises:
        RewardError: the curriculum refused the rewards.
    """
    return int(curriculum.more([group.ticket], **_reported(group))[0])


def observe(
    curriculum: Curriculum, fill: Fill[Group], counts: Counts, group: Group
) -> AuxiliarySamples | None:
    """Report a group's rewards to the curriculum, and its verdict to the group and to the fill.

    Returns:
        what the method wants the policy trained on besides.

    Raises:
        RewardError: the curriculum refused the rewards; the group was dropped.
    """
    try:
        verdict = curriculum.observe([group.ticket], **_reported(group))
    except BaseException:
        drop(curriculum, fill, counts, group, "failed")
        raise
    group.admitted = bool(verdict.admitted[0])
    group.verdict = verdict
    group.informativeness = float(verdict.informativeness[0])
    counts.wasted_rollouts += group.asked - sum(rollout.error is None for rollout in group.rollouts)
    if group.admitted:
        fill.admit(group.ticket, group)
    else:
        mean = float(group.rewards[group.scored].mean())
        fill.reject(group.ticket, group, informativeness=group.informativeness, reward=mean)
    return verdict.auxiliary_samples


def _reported(group: Group) -> dict[str, Any]:
    return {
        "rewards": group.rewards[None],
        "scored": group.scored[None],
        "named": {name: part_G[None] for name, part_G in group.named.items()},
    }


def drop(curriculum: Curriculum, fill: Fill[Group], counts: Counts, group: Group, why: str) -> None:
    """Give a group up, counted as `why`: "failed", "stale" or "cancelled"."""
    fill.lose(group.ticket, why)
    counts.wasted_rollouts += group.asked
    release(curriculum, [group.ticket])


def release(curriculum: Curriculum, tickets: Iterable[int]) -> None:
    """Drop tickets, except those that somebody else has settled."""
    tickets_P = np.array(list(tickets), np.int64)
    tickets_P = tickets_P[np.isin(tickets_P, curriculum.ledger.tickets)]
    if len(tickets_P):
        curriculum.drop(tickets_P)

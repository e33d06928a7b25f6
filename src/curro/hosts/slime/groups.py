"""A finished group of samples as the curriculum takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.run_writer import Completion

TICKET, ROLLOUT = "curro_ticket", "curro_rollout"
"""Where a sample's metadata have the ticket of its group, and its place in it."""

Group = Sequence[Any]
"""G rollouts of a prompt; a rollout is a sample, or a list of the samples that it was divided into."""


def mark(group: Group, ticket: int) -> None:
    """Write the ticket into a new group's samples; copies of them keep it."""
    for rollout, sample in enumerate(group):
        sample.metadata = {**(sample.metadata or {}), TICKET: ticket, ROLLOUT: rollout}


def ticket_of(group: Group) -> int | None:
    """The ticket of a group; None where it is not the curriculum's."""
    first = group[0][0] if isinstance(group[0], list) else group[0]
    return (first.metadata or {}).get(TICKET)


def rewards_of(args: Any, group: Group) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The rewards (G,) and their parts, (G,) each; NaN where a rollout failed or has none.

    The reward of a rollout that was divided is the mean of its samples' rewards.
    """
    divided = [rollout if isinstance(rollout, list) else [rollout] for rollout in group]
    rewards_G = np.array([_mean([_reward(args, sample) for sample in rollout]) for rollout in divided])
    names = {
        name: None
        for rollout in divided
        for sample in rollout
        if isinstance(sample.reward, dict)
        for name, part in sample.reward.items()
        if isinstance(part, int | float)
    }
    parts = {
        name: np.array([_mean([_part(sample, name) for sample in rollout]) for rollout in divided])
        for name in names
    }
    return rewards_G, parts


def completions_of(group: Group) -> list[Completion]:
    """What was generated in each rollout; of one that was divided, the samples' texts one after the other."""
    divided = [rollout if isinstance(rollout, list) else [rollout] for rollout in group]
    return [
        Completion(
            "".join(sample.response for sample in rollout),
            sum(sample.response_length for sample in rollout),
            rollout[-1].status.value == "truncated",
        )
        for rollout in divided
    ]


def _reward(args: Any, sample: Any) -> float:
    if sample.reward is None or sample.status.value in ("aborted", "failed"):
        return np.nan
    reward = sample.get_reward_value(args)
    return np.nan if reward is None else float(reward)


def _part(sample: Any, name: str) -> float:
    part = sample.reward.get(name) if isinstance(sample.reward, dict) else None
    return float(part) if isinstance(part, int | float) else np.nan


def _mean(numbers: list[float]) -> float:
    """Of the numbers that there are; NaN where there are none."""
    there = [number for number in numbers if not np.isnan(number)]
    return float(np.mean(there)) if there else np.nan

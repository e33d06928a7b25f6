"""Advantages as the curriculum credits them, in place of rewards less their group's mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from tinker_cookbook.rl import data_processing, train
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup

from curro.errors import ConfigError
from curro.verdicts import Verdict


class CreditedTrajectories(list[Trajectory]):
    """A group's trajectories, which carry the curriculum's verdict through the loop.

    Attributes:
        rewards: one a trajectory, as the curriculum observed them.
        credit: `Curriculum.credit`.
    """

    def __init__(
        self,
        trajectories: Iterable[Trajectory],
        verdict: Verdict,
        rewards: list[float],
        credit: Callable[[Sequence[Verdict]], np.ndarray],
    ) -> None:
        super().__init__(trajectories)
        self.verdict, self.rewards, self.credit = verdict, rewards, credit


def credited_advantages(trajectory_groups_P: list[TrajectoryGroup]) -> list[torch.Tensor]:
    """As the cookbook's `compute_advantages`, P tensors (G,), with the curriculum's credit for its groups.

    Raises:
        ConfigError: the loop changed the rewards after the curriculum had learnt from them.
    """
    advantages_P = data_processing.compute_advantages(trajectory_groups_P)
    rows = [
        row
        for row, group in enumerate(trajectory_groups_P)
        if isinstance(group.trajectories_G, CreditedTrajectories)
    ]
    if not rows:
        return advantages_P
    credited = [trajectory_groups_P[row].trajectories_G for row in rows]
    for row, trajectories in zip(rows, credited, strict=True):
        if not np.array_equal(
            trajectories.rewards, trajectory_groups_P[row].get_total_rewards(), equal_nan=True
        ):
            raise ConfigError(
                "the loop's termination policy changed rewards that the curriculum had learnt from: pass it "
                "as FilledGroups(termination=...), and to train.Config "
                "termination=TerminationRewardPolicy(zero_reward_on_limit=False)"
            )
    credit_PG = credited[0].credit([trajectories.verdict for trajectories in credited])
    for row, trajectories, credit_G in zip(rows, credited, credit_PG, strict=True):
        advantages_P[row] = torch.tensor(credit_G[: len(trajectories)], dtype=torch.float32)
    return advantages_P


def install() -> None:
    """Let the loops ask `credited_advantages`; the cookbook has no setting for it."""
    train.compute_advantages = credited_advantages

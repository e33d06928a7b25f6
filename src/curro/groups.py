"""Finished groups of rollouts: their rewards, checked, and what follows from rewards alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from curro.errors import RewardError
from curro.prompts import PromptTable

_LARGEST = 1e15
"""Rewards up to here, in reward ranges, keep squares finite in float32 and steps of 1 in float64."""


@dataclass(frozen=True)
class Groups:
    """P groups of G rollouts.

    Attributes:
        prompts: int64 (P,); distinct, unless the selection repeats prompts.
        steps: int64 (P,), the training step at which each was selected.
        rewards: float64 (P, G), what is trained on; 0 where a rollout was not scored.
        scored: bool (P, G), which rollouts have a reward.
        mean: float64 (P,), mean reward of the scored rollouts, the success rate of 0/1 rewards; 0
            where none was scored.
        variance: float64 (P,), mean((r - mean)^2) of them, p(1-p) of 0/1 rewards: the informativeness.
        named: the parts that the reward was made of, by name; float64 (P, G), NaN where a rollout has
            no such part.
    """

    prompts: np.ndarray
    steps: np.ndarray
    rewards: np.ndarray
    scored: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    named: Mapping[str, np.ndarray] = field(default_factory=dict)

    def part(self, name: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and number of scored rollouts, (P,) each, of a named reward; None: of the reward.

        Raises:
            RewardError: the groups carry no reward of that name.
        """
        if name is None:
            return self.mean, self.variance, self.scored.sum(axis=1)
        if name not in self.named:
            has = ", ".join(sorted(self.named)) or "none"
            raise RewardError(f"the groups carry no reward named {name!r}; they carry: {has}")
        scored_PG = ~np.isnan(self.named[name])
        return *moments(np.where(scored_PG, self.named[name], 0.0), scored_PG), scored_PG.sum(axis=1)

    def take(self, rows: np.ndarray) -> Groups:
        """The groups at `rows`."""
        named = {name: part[rows] for name, part in self.named.items()}
        return Groups(
            self.prompts[rows], self.steps[rows], self.rewards[rows], self.scored[rows],
            self.mean[rows], self.variance[rows], named,
        )  # fmt: skip


def moments(rewards_PG: np.ndarray, scored_PG: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population variance (P,) of the scored rollouts of each group; 0 where there are none.

    Counted from the lowest reward, so that a group of equal rewards has a variance of exactly 0.
    """
    # NumPy reduces the first axis of (G, P) many times faster than the last of (P, G)
    rewards_GP, scored_GP = np.ascontiguousarray(rewards_PG.T), np.ascontiguousarray(scored_PG.T)
    if len(scored_GP) and scored_GP.all():
        count_P, lowest_P = np.float64(len(rewards_GP)), rewards_GP.min(axis=0)
        mean_P = lowest_P + (rewards_GP - lowest_P).sum(axis=0) / count_P
        centred_GP = rewards_GP - mean_P
    else:
        count_P = np.maximum(scored_GP.sum(axis=0), 1)
        lowest_P = rewards_GP.min(axis=0, where=scored_GP, initial=np.inf)
        lowest_P[~scored_GP.any(axis=0)] = 0.0
        mean_P = lowest_P + np.where(scored_GP, rewards_GP - lowest_P, 0.0).sum(axis=0) / count_P
        centred_GP = np.where(scored_GP, rewards_GP - mean_P, 0.0)
    return mean_P, (centred_GP * centred_GP).sum(axis=0) / count_P


def read_groups(
    table: PromptTable,
    prompts: np.ndarray,
    steps: np.ndarray,
    rewards: ArrayLike,
    scored: ArrayLike | None,
    named: Mapping[str, ArrayLike] | None,
) -> Groups:
    """Groups from what a host reports, as `Curriculum.observe` takes it.

    Raises:
        RewardError: a wrong shape; a scored reward that is NaN, infinite or too large.
    """
    try:
        rewards_PG = np.asarray(rewards, np.float64)
        scored_PG = np.asarray(np.ones(rewards_PG.shape) if scored is None else scored, np.bool_)
    except (TypeError, ValueError) as error:
        raise RewardError(f"rewards are a number a rollout, groups of one length: {error}") from error
    if rewards_PG.ndim != 2 or len(rewards_PG) != len(prompts) or not rewards_PG.shape[1]:
        raise RewardError(
            f"rewards have shape {rewards_PG.shape}; {len(prompts)} tickets need ({len(prompts)}, G), "
            "a row a ticket and a column a rollout"
        )
    if scored_PG.shape != rewards_PG.shape:
        raise RewardError(f"`scored` has shape {scored_PG.shape}, rewards have {rewards_PG.shape}")
    rewards_PG = np.where(scored_PG, rewards_PG, 0.0)
    _check_sizes(table, prompts, rewards_PG, "reward")
    parts = {}
    for name, part in (named or {}).items():
        try:
            part_PG = np.where(scored_PG, np.asarray(part, np.float64), np.nan)
        except (TypeError, ValueError) as error:
            raise RewardError(
                f"the named reward {name!r} is not of shape {rewards_PG.shape}: {error}"
            ) from error
        _check_sizes(table, prompts, np.nan_to_num(part_PG, nan=0.0, posinf=np.inf, neginf=-np.inf), name)
        parts[name] = part_PG
    return Groups(prompts, steps, rewards_PG, scored_PG, *moments(rewards_PG, scored_PG), parts)


def _check_sizes(table: PromptTable, prompts: np.ndarray, rewards_PG: np.ndarray, name: str) -> None:
    low, high = table.reward_range
    limit = _LARGEST * min(1.0, high - low)
    fine = np.abs(rewards_PG) <= limit
    if not fine.all():
        row, rollout = np.argwhere(~fine)[0]
        raise RewardError(
            f"rollout {rollout} of prompt {table.key(int(prompts[row]))!r} has the {name} "
            f"{rewards_PG[row, rollout]}: rewards are finite and at most {limit:g} in size; "
            "say in `scored` what could not be scored"
        )

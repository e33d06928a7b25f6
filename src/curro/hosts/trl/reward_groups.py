"""Rewards of rollouts, as TRL has them in rows, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Report:
    """The rewards of P groups as the port takes them; float64 (P, G), NaN where there is none.

    Attributes:
        rewards: the weighted sums.
        named: of each reward function, under its name.
    """

    rewards: np.ndarray
    named: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, rewards: torch.Tensor, weights: torch.Tensor, names: Sequence[str], sizes: np.ndarray
    ) -> Report:
        """The report of rewards (rollouts, functions) of groups of these sizes, one after the other."""
        columns = rewards.double().cpu().numpy()
        sums = weighted_sums(rewards, weights).numpy()
        named = {name: by_group(columns[:, i], sizes) for i, name in enumerate(names)}
        return cls(by_group(sums, sizes), named)

    @property
    def means(self) -> np.ndarray:
        """float64 (P,), of the scored rollouts; 0 where there is none."""
        scored_PG = ~np.isnan(self.rewards)
        return np.where(scored_PG, self.rewards, 0.0).sum(axis=1) / np.maximum(scored_PG.sum(axis=1), 1)

    def arguments(self) -> dict[str, Any]:
        """Of `Curriculum.observe` and `Curriculum.more`, without the tickets."""
        scored_PG = ~np.isnan(self.rewards)
        return {
            "rewards": np.where(scored_PG, self.rewards, 0.0),
            "scored": scored_PG,
            "named": self.named,
        }


def weighted_sums(rewards: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The weighted sums (rollouts,) of the reward functions' values, NaN where there is none.

    Args:
        rewards: (rollouts, functions), NaN where a function gave none.
        weights: (functions,).
    """
    values = rewards.double().cpu()
    sums = (values * weights.double().cpu()).nansum(dim=1)
    sums[values.isnan().all(dim=1)] = torch.nan
    return sums


def by_group(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """One value a rollout as float64 (P, G), with NaN beyond the end of groups that are smaller than G."""
    found = np.full((len(sizes), sizes.max()), np.nan)
    found[np.arange(sizes.max()) < sizes[:, None]] = values
    return found

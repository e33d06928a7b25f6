"""Reports finished groups to the curriculum on its owner, and the verdicts to every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from curro.curriculum import Curriculum
from curro.hosts.trl.owner import on_owner
from curro.hosts.trl.records import GroupRecord
from curro.policy import AuxiliarySamples
from curro.runs.writer import Completion
from curro.verdicts import Draw, Verdict


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


class GroupObserver:
    """What stands between TRL's rows of rewards and the curriculum's groups.

    Args:
        accelerator, curriculum: the trainer's.
        weights, names: of the reward functions.
        listeners: are called on the main process with every `GroupRecord`.

    Attributes:
        auxiliary_samples: what the verdicts of a generation want the policy trained on besides the rollouts.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        curriculum: Curriculum,
        weights: torch.Tensor,
        names: Sequence[str],
        listeners: Sequence[Callable[[GroupRecord], None]],
    ) -> None:
        self.accelerator, self.curriculum = accelerator, curriculum
        self.weights, self.names, self.listeners = weights, names, listeners
        self.auxiliary_samples: list[AuxiliarySamples] = []

    def report(self, rewards: torch.Tensor, sizes_P: np.ndarray) -> Report:
        """The rewards of groups of these sizes as the port takes them."""
        return Report.of(rewards, self.weights, self.names, sizes_P)

    def more(self, tickets: Sequence[int], rewards: torch.Tensor, sizes_P: np.ndarray) -> Sequence[int]:
        """How many further rollouts each of these open tickets is to get."""
        arguments = self.report(rewards, sizes_P).arguments()
        return on_owner(self.accelerator, lambda: self.curriculum.more(tickets, **arguments).tolist())

    def observe(
        self, draw: Draw, rewards: torch.Tensor, completions: Sequence[Completion], step: int
    ) -> Verdict:
        """The verdict on groups with these rollouts of all processes, one after the other.

        Where the curriculum refuses the rewards, the tickets are dropped.
        """
        verdict = on_owner(self.accelerator, lambda: self._observe(draw, rewards, completions, step))
        if verdict.auxiliary_samples is not None:
            self.auxiliary_samples.append(verdict.auxiliary_samples)
        return verdict

    def _observe(
        self, draw: Draw, rewards: torch.Tensor, completions: Sequence[Completion], step: int
    ) -> Verdict:
        report, sizes_P = self.report(rewards, draw.rollouts), draw.rollouts
        try:
            verdict = self.curriculum.observe(draw.tickets, **report.arguments())
        except BaseException:
            self.curriculum.drop(draw.tickets)
            raise
        ends = np.cumsum(sizes_P).tolist()
        groups = [completions[end - size : end] for end, size in zip(ends, sizes_P.tolist(), strict=True)]
        for listener in self.listeners:
            listener(GroupRecord(step, draw, report.rewards, verdict, groups))
        return verdict

"""Reports finished groups to the curriculum on its owner, and the verdicts to every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from curro.curriculum import Curriculum
from curro.errors import RewardError
from curro.hosts.trl.owner import on_owner
from curro.policy import AuxiliarySamples
from curro.runs.writer import Completion, KeepRollouts, RunWriter
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
        return {"rewards": self.rewards, "named": self.named}


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
    values_PG = np.full((len(sizes), sizes.max()), np.nan)
    values_PG[np.arange(sizes.max()) < sizes[:, None]] = values
    return values_PG


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one generation, as a caller hears of them.

    Attributes:
        step: the training step before it.
        draw, verdict: what was drawn, and what the curriculum said of it.
        rewards: float64 (P, G), NaN where a rollout was not scored and beyond the end of smaller groups.
        completions: what was generated, of each group.
    """

    step: int
    draw: Draw
    rewards: np.ndarray
    verdict: Verdict
    completions: Sequence[Sequence[Completion]] = ()

    @property
    def sizes(self) -> np.ndarray:
        """int64 (P,), how many rollouts were generated of each; rewards of smaller groups end in NaN."""
        return self.draw.rollouts

    @property
    def rollouts(self) -> int:
        """How many rollouts these are."""
        return int(self.sizes.sum())


class GroupObserver:
    """What stands between TRL's rows of rewards and the curriculum's groups.

    Args:
        accelerator, curriculum: the trainer's.
        weights, names: of the reward functions.
        listeners: are called on the main process with every `GroupRecord`.
        patience: how many rollouts in a row may have no reward before there has been any.

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
        *,
        patience: int,
    ) -> None:
        self.accelerator, self.curriculum = accelerator, curriculum
        self.weights, self.names, self.listeners = weights, names, listeners
        self.patience = patience
        self.auxiliary_samples: list[AuxiliarySamples] = []
        self._without_reward = 0

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
        self._stop_without_rewards(int(sizes_P.sum()))
        return verdict

    def _stop_without_rewards(self, rollouts: int) -> None:
        """Stop a run whose reward functions never give a reward: nothing would ever be observed.

        Raises:
            RewardError: the first rollouts of the run have none.
        """
        if self.curriculum.ledger.observed:
            return
        self._without_reward += rollouts
        if self._without_reward >= self.patience:
            raise RewardError(
                f"none of the first {self._without_reward} rollouts has a reward: {', '.join(self.names)} "
                "returned None or NaN for all of them; check what the reward function reads of the "
                "completions and the columns"
            )


class WrittenRun:
    """A run's lines; the folder is made when there is a first one, as only then the run's step is known.

    Args:
        output: the trainer's output folder.
        curriculum: whose configuration and prompts are written down.
        keep: how many rollouts are kept to be read.
    """

    def __init__(self, output: Path, curriculum: Curriculum, keep: KeepRollouts) -> None:
        self.output, self.curriculum, self.keep = output, curriculum, keep
        self._writer: RunWriter | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is a first line."""
        return self._writer is not None

    def groups(self, record: GroupRecord) -> None:
        """Write down the groups of a generation."""
        self._at(record.step).groups(
            record.step + 1, record.draw.reasons, record.rewards, record.verdict, record.sizes,
            record.completions,
        )  # fmt: skip

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write down the generation after so many finished steps."""
        self._at(step).step(step + 1, metrics)

    def evaluated(self, step: int, scores: Mapping[str, float], seconds: float) -> None:
        """Write down an evaluation after so many finished steps."""
        self._at(step).evaluated(step, scores, seconds)

    def saved(self) -> None:
        """Write down the prompt table beside a checkpoint."""
        if self._writer is not None:
            self._writer.folder.write_table(self.curriculum.table)

    def _at(self, step: int) -> RunWriter:
        if self._writer is None:
            config = {"curriculum": self.curriculum.config}
            self._writer = RunWriter.of_host(self.output, config, self.curriculum.table, step, self.keep)
        return self._writer

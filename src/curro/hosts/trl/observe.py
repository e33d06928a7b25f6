"""Reports finished groups to the curriculum on its owner, and the verdicts to every process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from curro.core.curriculum import Curriculum
from curro.core.groups import Feedback, MissingRewards, sum_of_parts
from curro.core.policy import AuxiliarySamples
from curro.core.verdicts import Draw, Verdict
from curro.hosts.trl.processes import MainProcess
from curro.rollout.evaluation_results import held_out_scores
from curro.runs.writer import Completion, RunWriter


def read_feedback(
    tickets: Sequence[int] | np.ndarray,
    rewards: torch.Tensor,
    sizes_P: np.ndarray,
    *,
    weights: torch.Tensor,
    names: Sequence[str],
) -> Feedback:
    """TRL's rewards of P groups, one after the other, as the port takes them.

    The rewards are the weighted sums, and the parts are the functions' own values.

    Args:
        tickets: (P,), of the groups; empty for groups that no curriculum drew.
        rewards: (rollouts, functions), NaN where a function gave none.
        sizes_P: how many rollouts each group has.
        weights, names: of the functions.
    """
    columns = rewards.double().cpu().numpy()
    sums = weighted_sums(rewards, weights).numpy()
    named = {name: by_group(columns[:, i], sizes_P) for i, name in enumerate(names)}
    return Feedback(np.asarray(tickets, np.int64), by_group(sums, sizes_P), named)


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


def scores_of(groups: Sequence[Feedback], prompts: int | None, curriculum: Curriculum) -> dict[str, float]:
    """The held-out scores of an evaluation's groups, of the first `prompts` of them, as `eval/...`."""
    parts = curriculum.signal_parts
    rewards_PG = np.concatenate([group.rewards for group in groups])[:prompts]
    parts_RPG = [np.concatenate([group.named[name] for group in groups]) for name in parts]
    signal_PG = sum_of_parts(parts_RPG)[:prompts] if parts else None
    return held_out_scores(rewards_PG, curriculum.table.reward_range, signal_PG)


@dataclass(frozen=True)
class GroupRecord:
    """The groups of one generation, as a caller hears of them.

    Attributes:
        step: how many training steps have finished before it, as `Curriculum.select` takes it.
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

    def write_to(self, writer: RunWriter) -> None:
        """Write the groups into a run's folder, as those of the step that is trained on them."""
        writer.drawn(self.draw)
        writer.groups(
            self.step + 1, self.draw.tickets, self.rewards, self.verdict, self.sizes, self.completions
        )


class GroupObserver:
    """What stands between TRL's rows of rewards and the curriculum's groups.

    Args:
        owner: of the curriculum.
        curriculum: the trainer's.
        weights, names: of the reward functions.
        listeners: are called on the main process with every `GroupRecord`.
        batch: how many groups a batch has: a run ends if that many have no reward before any has one.

    Attributes:
        auxiliary_samples: what the verdicts of a generation want the policy trained on besides the rollouts.
    """

    def __init__(
        self,
        owner: MainProcess,
        curriculum: Curriculum,
        weights: torch.Tensor,
        names: Sequence[str],
        listeners: Sequence[Callable[[GroupRecord], None]],
        *,
        batch: int,
    ) -> None:
        self.owner, self.curriculum = owner, curriculum
        self.weights, self.names, self.listeners = weights, names, listeners
        self.auxiliary_samples: list[AuxiliarySamples] = []
        self._batch, self._missing_rewards = batch, MissingRewards()

    def feedback(
        self, tickets: Sequence[int] | np.ndarray, rewards: torch.Tensor, sizes_P: np.ndarray
    ) -> Feedback:
        """The rewards of groups of these sizes as the port takes them."""
        return read_feedback(tickets, rewards, sizes_P, weights=self.weights, names=self.names)

    def observe(
        self, draw: Draw, rewards: torch.Tensor, completions: Sequence[Completion], step: int
    ) -> Verdict:
        """The verdict on groups with these rollouts of all processes, one after the other.

        Where the curriculum refuses the rewards, the tickets are dropped.
        """
        verdict = self.owner.decide(lambda: self._observe(draw, rewards, completions, step))
        if verdict.auxiliary_samples is not None:
            self.auxiliary_samples.append(verdict.auxiliary_samples)
        return verdict

    def _observe(
        self, draw: Draw, rewards: torch.Tensor, completions: Sequence[Completion], step: int
    ) -> Verdict:
        sizes_P = draw.rollouts
        feedback = self.feedback(draw.tickets, rewards, sizes_P)
        try:
            verdict = self.curriculum.observe(**feedback.arguments())
        except BaseException:
            self.curriculum.drop(draw.tickets)
            raise
        ends = np.cumsum(sizes_P).tolist()
        groups = [completions[end - size : end] for end, size in zip(ends, sizes_P.tolist(), strict=True)]
        for listener in self.listeners:
            listener(GroupRecord(step, draw, feedback.rewards, verdict, groups))
        if not self.curriculum.ledger.observed:
            self._missing_rewards.count(feedback, self._batch)
        return verdict

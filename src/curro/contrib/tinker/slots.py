"""The fill as Tinker's loop drives it: a batch has so many slots, and each slot ends with one group.

The loop rolls all slots out at the same time. A slot whose group the gate rejects is given another prompt,
until a group is admitted or the fill allows no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tinker_cookbook.rl import data_processing, train
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory, TrajectoryGroup

from curro.core.curriculum import Curriculum
from curro.core.errors import ConfigError, CurroError, ExhaustedError, FillError, RewardError
from curro.core.groups import Feedback, MissingRewards
from curro.core.verdicts import Verdict
from curro.rollout.fill import Fill, select_unseen
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import Completion, RunWriter

ADVICE = {"stale": "", "filtered": "", "expired": "", "failed": "look for their errors in the loop's log"}


@dataclass(frozen=True)
class AssignedPrompt:
    """The prompt that a slot rolls out: its number, its ticket, and how many rollouts it gets."""

    prompt: int
    ticket: int
    rollouts: int


class BatchSlots:
    """Draws the prompts for the slots of one batch, and settles their tickets.

    Args:
        n: how many slots.
        step: the batch's number, which is the training step of the loop.
        group_size: rollouts of a prompt where the curriculum has no allocation.
        metrics: what the loop logs with each rollout.
        missing_rewards: counts groups without a reward, of all batches.
        errors: a list for errors that have to end the run even if the loop catches them.
        on_end: called when every slot has ended.
        writer: of the run folder; None if there is none.

    Attributes:
        open: how many slots have not ended.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        settings: FillSettings,
        n: int,
        step: int,
        group_size: int,
        metrics: Mapping[str, float],
        missing_rewards: MissingRewards,
        errors: list[CurroError],
        on_end: Callable[[], None],
        writer: RunWriter | None = None,
    ) -> None:
        self.curriculum, self.group_size, self.on_end = curriculum, group_size, on_end
        self.writer = writer
        self.metrics, self.missing_rewards, self.errors = metrics, missing_rewards, errors
        self.fill: Fill[int] = Fill(settings, size=curriculum.table.size, advice=ADVICE)
        self.fill.begin(n, step)
        self.open = n

    def draw(self, n: int, budget: int) -> list[AssignedPrompt]:
        """The next n prompts; fewer where the allocation gives some of them none of the budget."""
        has_budget = self.curriculum.has_allocation and self.curriculum.allocation.needs_budget
        step = max(self.fill.step, self.curriculum.step)  # the asynchronous loop has begun a later batch
        draw = select_unseen(
            self.curriculum, self.fill, n, step=step, rollouts=budget if has_budget else None
        )
        if self.writer is not None:
            self.writer.drawn(draw)
        sizes_P = np.where(draw.rollouts > 0, draw.rollouts, self.group_size)
        return [
            AssignedPrompt(*row)
            for row in zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes_P.tolist(), strict=True)
        ]

    def replace(self, assigned: AssignedPrompt) -> AssignedPrompt | None:
        """Another prompt for a slot whose group was not admitted; None if no more may be given out."""
        if self.fill.reason:
            return None
        try:
            return self.draw(1, assigned.rollouts)[0]
        except ExhaustedError:
            return None

    def observe(
        self,
        assigned: AssignedPrompt,
        rewards: np.ndarray,
        named: Mapping[str, np.ndarray],
        completions: Sequence[Completion],
    ) -> Verdict:
        """Settle a finished group.

        Args:
            rewards: float64 (G,), NaN where a rollout has none.
            named: their parts, (G,) each.
            completions: G, what was generated.

        Raises:
            RewardError: the curriculum refuses the rewards; or as many groups as a batch has have none, and
                no group before them had one.
        """
        feedback = Feedback.of_group(assigned.ticket, rewards, named)
        verdict = self.curriculum.observe(**feedback.arguments())
        self.fill.settle(feedback, verdict, [assigned.ticket])
        if self.writer is not None:
            ticket, prompt, size = [assigned.ticket], [assigned.prompt], np.array([len(rewards)])
            self.writer.groups(
                self.fill.step + 1, ticket, prompt, rewards[None], verdict, size, [completions]
            )
        if not self.curriculum.ledger.observed:
            try:
                self.missing_rewards.count(feedback, self.fill.n)
            except RewardError as error:
                raise self.fatal(error) from None
        return verdict

    def lose(self, assigned: AssignedPrompt, why: str) -> None:
        """Drop the ticket of a group that was not observed: "failed" or "cancelled"."""
        if assigned.ticket not in self.fill.in_flight:
            return  # it was observed, and something failed after that
        self.fill.mark_failed(assigned.ticket, why)
        self.curriculum.drop([assigned.ticket])
        if self.writer is not None:
            self.writer.dropped([assigned.ticket])

    def short(self, verdict: Verdict) -> Verdict:
        """What is trained on in a slot of which no group was admitted, given its most informative group."""
        when_short = self.fill.settings.when_short
        if when_short == "error":
            raise self.fatal(FillError(self.fill.explain()))
        if when_short == "finish":
            return replace(verdict, advantages=np.zeros_like(verdict.advantages))
        self.fill.counts.topped_up += 1
        return verdict

    def fatal(self, error: CurroError) -> CurroError:
        """Note an error, which the data set raises again if the loop continues, and return it."""
        self.errors.append(error)
        return error

    def end(self) -> None:
        """One slot has ended; after the last one, the tickets that were held are dropped."""
        self.open -= 1
        if self.open == 0:
            if held := self.fill.release():
                self.curriculum.drop(held)
            self.on_end()


Build = Callable[[int, int], EnvGroupBuilder]
"""The environments of a prompt, given its number and how many rollouts it gets."""


class CurriculumGroup(EnvGroupBuilder):
    """One slot of a batch, which `FilledGroups` rolls out.

    Attributes:
        assigned: the prompt in flight; None once the slot has ended.
        slots: all slots of the batch.
        final_rewards: (reward, metrics) of each trajectory of the group that ended the slot.
    """

    def __init__(
        self, build: Build, assigned: AssignedPrompt, slots: BatchSlots, single_slot: Callable[[], BatchSlots]
    ) -> None:
        self.build, self.slots, self._single_slot = build, slots, single_slot
        self.assigned: AssignedPrompt | None = assigned
        self.final_rewards: list[tuple[float, Metrics]] = []
        self._builder = build(assigned.prompt, assigned.rollouts)

    def begin(self) -> AssignedPrompt:
        """The prompt to roll out first: that of the batch, or a new one if the slot has ended before.

        Up to cookbook 0.5, the asynchronous loop rolls a slot out again when its group has become too old.
        """
        if self.assigned is None:
            self.slots = self._single_slot()
            self.assigned = self.slots.draw(1, self.slots.group_size)[0]
        return self.assigned

    def builder(self, assigned: AssignedPrompt) -> EnvGroupBuilder:
        """The builder of this prompt's environments."""
        self._builder = self.build(assigned.prompt, assigned.rollouts)
        return self._builder

    async def make_envs(self) -> Sequence[Env]:
        raise self.slots.fatal(
            ConfigError(
                "the loop rolls the curriculum's groups out by itself: pass rollout_error_tolerance="
                "curro.contrib.tinker.FilledGroups() to tinker_cookbook.rl.train.Config"
            )
        )

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        return self.final_rewards

    def logging_tags(self) -> list[str]:
        return self._builder.logging_tags()

    def __reduce__(self) -> Any:
        raise ConfigError(
            "a curriculum's groups cannot be rolled out in other processes, because it learns in this one: "
            "leave rollout_executor out"
        )


class CreditedTrajectories(list[Trajectory]):
    """A group's trajectories, which carry the curriculum's verdict through the loop."""

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
    """As the cookbook's `compute_advantages`, P tensors (G,), with the curriculum's credit for its groups."""
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


def install_credit() -> None:
    """Replace the function by which the cookbook's loops compute advantages; they have no setting for it."""
    train.compute_advantages = credited_advantages

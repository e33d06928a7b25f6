"""The fill as Tinker's loop drives it: a batch is so many places, and each place ends with one group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tinker_cookbook.rl import data_processing, train
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, Trajectory, TrajectoryGroup

from curro.curriculum import Curriculum
from curro.errors import ConfigError, CurroError, ExhaustedError, FillError
from curro.rollout.fill import Fill, draw_fresh
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import Completion, TicketWriter
from curro.verdicts import Verdict

ADVICE = {"stale": "", "filtered": "", "expired": "", "failed": "look for their errors in the loop's log"}


@dataclass(frozen=True)
class Given:
    """A prompt in flight: its number, its ticket, and how many rollouts it is to get."""

    prompt: int
    ticket: int
    rollouts: int


class Places:
    """Gives the places of one batch their prompts, and settles the tickets.

    Args:
        n: how many places.
        step: the batch's number, which is the training step of the loop.
        group_size: rollouts of a prompt where the curriculum has no allocation.
        metrics: what the loop logs with each rollout.
        errors: where errors go that end the run, whatever the loop makes of them.
        on_end: called when every place has ended.
        writer: of the run folder; None where there is none.

    Attributes:
        open: places that have not ended.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        settings: FillSettings,
        n: int,
        step: int,
        group_size: int,
        metrics: Mapping[str, float],
        errors: list[CurroError],
        on_end: Callable[[], None],
        writer: TicketWriter | None = None,
    ) -> None:
        self.curriculum, self.group_size, self.on_end = curriculum, group_size, on_end
        self.writer = writer
        self.metrics, self.errors = metrics, errors
        self.fill: Fill[int] = Fill(
            settings, size=curriculum.table.size, may_repeat=curriculum.selection.repeats, advice=ADVICE
        )
        self.fill.begin(n, step)
        self.open = n

    def draw(self, n: int, budget: int) -> list[Given]:
        """The next n prompts; fewer where the allocation gives some of them none of the budget."""
        has_budget = self.curriculum.has_allocation and self.curriculum.allocation.needs_budget
        step = max(self.fill.step, self.curriculum.step)  # the asynchronous loop has begun a later batch
        draw = draw_fresh(self.curriculum, self.fill, n, step=step, rollouts=budget if has_budget else None)
        if self.writer is not None:
            self.writer.drawn(draw)
        sizes_P = np.where(draw.rollouts > 0, draw.rollouts, self.group_size)
        return [
            Given(*row)
            for row in zip(draw.prompts.tolist(), draw.tickets.tolist(), sizes_P.tolist(), strict=True)
        ]

    def replace(self, given: Given) -> Given | None:
        """Another prompt for a place whose group was not admitted; None where no more may be given out."""
        if self.fill.reason:
            return None
        try:
            return self.draw(1, given.rollouts)[0]
        except ExhaustedError:
            return None

    def more(self, given: Given, rewards: np.ndarray, named: Mapping[str, np.ndarray]) -> int:
        """How many further rollouts the prompt gets before its group is observed (`Curriculum.more`)."""
        parts = {name: part[None] for name, part in named.items()}
        return int(
            self.curriculum.more([given.ticket], rewards[None], scored=~np.isnan(rewards)[None], named=parts)[
                0
            ]
        )

    def observe(
        self,
        given: Given,
        rewards: np.ndarray,
        named: Mapping[str, np.ndarray],
        completions: Sequence[Completion],
    ) -> Verdict:
        """Settle a finished group.

        Args:
            rewards: float64 (G,), NaN where a rollout has none.
            named: their parts, (G,) each.
            completions: G, what was generated.
        """
        scored = ~np.isnan(rewards)
        parts = {name: part[None] for name, part in named.items()}
        verdict = self.curriculum.observe([given.ticket], rewards[None], scored=scored[None], named=parts)
        if self.writer is not None:
            size = np.array([len(rewards)])
            self.writer.observed(
                self.fill.step + 1, [given.ticket], rewards[None], verdict, size, [completions]
            )
        if not scored.any():
            self.fill.lose(given.ticket, "failed")
        elif verdict.admitted[0]:
            self.fill.admit(given.ticket, given.ticket)
        else:
            variance, mean = float(verdict.informativeness[0]), float(rewards[scored].mean())
            self.fill.reject(given.ticket, given.ticket, informativeness=variance, reward=mean)
        return verdict

    def lose(self, given: Given, why: str) -> None:
        """Drop the ticket of a group that has no rewards: "failed" or "cancelled"."""
        self.fill.lose(given.ticket, why)
        self.curriculum.drop([given.ticket])
        if self.writer is not None:
            self.writer.dropped([given.ticket])

    def short(self, verdict: Verdict) -> Verdict:
        """The verdict on the most informative group of a place that has none that was admitted.

        Raises:
            FillError: the settings ask for that.
        """
        when_short = self.fill.settings.when_short
        if when_short == "error":
            raise self.fatal(FillError(self.fill.explain()))
        if when_short == "finish":
            return replace(verdict, advantages=np.zeros_like(verdict.advantages))
        self.fill.counts.topped_up += 1
        return verdict

    def fatal(self, error: CurroError) -> CurroError:
        """The error, which the data set raises again if the loop goes on."""
        self.errors.append(error)
        return error

    def end(self) -> None:
        """One place has ended; after the last one, the tickets that were held are dropped."""
        self.open -= 1
        if self.open == 0:
            if held := self.fill.release():
                self.curriculum.drop(held)
            self.on_end()


Build = Callable[[int, int], EnvGroupBuilder]
"""The environments of a prompt, given its number and how many rollouts it gets."""


class CurriculumGroup(EnvGroupBuilder):
    """One place; `FilledGroups` rolls it out.

    Attributes:
        given: the prompt in flight; None once its group has ended.
        places: of the batch.
        final_rewards: what the group that ended the place had as rewards and metrics, one a trajectory.
    """

    def __init__(self, build: Build, given: Given, places: Places, again: Callable[[], Places]) -> None:
        self.build, self.places, self._again = build, places, again
        self.given: Given | None = given
        self.final_rewards: list[tuple[float, Metrics]] = []
        self._builder = build(given.prompt, given.rollouts)

    def begin(self) -> Given:
        """The prompt to roll out first: the one of the batch, or a new one where the place has ended before.

        Tinker's asynchronous loop puts a place back whose group has become too old.
        """
        if self.given is None:
            self.places = self._again()
            self.given = self.places.draw(1, self.places.group_size)[0]
        return self.given

    def builder(self, given: Given, rollouts: int | None = None) -> EnvGroupBuilder:
        """The builder of this prompt's environments."""
        self._builder = self.build(given.prompt, given.rollouts if rollouts is None else rollouts)
        return self._builder

    async def make_envs(self) -> Sequence[Env]:
        raise self.places.fatal(
            ConfigError(
                "the loop rolls the curriculum's groups out by itself: pass rollout_error_tolerance="
                "curro.hosts.tinker.FilledGroups() to tinker_cookbook.rl.train.Config"
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

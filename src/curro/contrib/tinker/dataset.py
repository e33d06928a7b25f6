"""The data set of Tinker's loops: each batch's prompts are chosen when the loop asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tinker_cookbook.checkpoint_utils import load_checkpoints_file
from tinker_cookbook.rl import data_processing, train
from tinker_cookbook.rl.rollouts import get_rollout_executor
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RLDataset, Trajectory, TrajectoryGroup

from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError, CurroError, ExhaustedError, FillError, RewardError
from curro.core.groups import Feedback, MissingRewards
from curro.core.identity import DatasetRows
from curro.core.verdicts import Verdict
from curro.rollout.fill import Fill, select_unseen
from curro.rollout.fill_settings import FillSettings

Build = Callable[[int, int], EnvGroupBuilder]
"""The environments of a prompt, given its number and how many rollouts it gets."""

RECENT = 10
"""How many of the latest states are kept although the loop has no checkpoint of them yet."""


class SavedCurricula:
    """Keeps one file for each batch: `curro/000012.npz` is the curriculum after batches 0 to 11 had ended."""

    def __init__(self, log_path: Path) -> None:
        self.log_path, self.folder = log_path, log_path / "curro"

    def save(self, curriculum: Curriculum, batch: int) -> None:
        """Save the state of a batch, and remove the files that the loop cannot resume from."""
        curriculum.save(self._file(batch))
        kept = {record.batch for record in load_checkpoints_file(str(self.log_path))}
        for number, file in self._files().items():
            if number <= batch - RECENT and number not in kept:
                file.unlink()

    def restore(self, curriculum: Curriculum, batch: int) -> None:
        """Load the state of this batch, or in the asynchronous loop the latest one before it.

        Tickets that were in flight are dropped, and the files of later batches removed: the loop forgets
        those batches too.
        """
        files = self._files()
        for number in [number for number in files if number > batch]:
            files.pop(number).unlink()
        if files and batch:
            curriculum.load(files[max(files)])
            curriculum.drop(curriculum.ledger.tickets)
        elif batch:
            raise CheckpointError(
                f"the loop goes on at batch {batch}, and {self.folder} has no curriculum of it or of one "
                "before: pass the log_path of train.Config, or start in an empty one"
            )

    def _file(self, batch: int) -> Path:
        return self.folder / f"{batch:06d}.npz"

    def _files(self) -> dict[int, Path]:
        return {int(file.stem): file for file in self.folder.glob("*.npz") if file.stem.isdecimal()}


class CurriculumDataset(RLDataset):
    """A data set of Tinker's whose batches a curriculum draws; it reports every finished group back.

    An `RLDatasetBuilder` makes one; `train.Config` needs `rollout_error_tolerance=FilledGroups()` besides.

    Args:
        curriculum: over the prompts that `build` knows by their numbers.
        build: the environments of a prompt, given its number and how many rollouts it gets.
        groups_per_batch: P, prompts of a batch.
        group_size: G, rollouts of a prompt; with an allocation, P times G is the batch's budget.
        batches: how many batches the loop trains on.
        log_path: `train.Config`'s; the curriculum is saved in its folder `curro`, and a loop that
            resumes goes on with what belongs to its batch.
        fill: what happens when the limit is reached and all groups of a slot were rejected: "top-up" trains
            on the slot's most informative group, "finish" sets that group's advantages to 0, and "error" ends
            the run.
        rows: the rows that `build` makes environments of, with the columns `prompt` and `answer`. A
            curriculum whose prompts are not these rows in this order is refused; one that was built from a
            bare number takes over their keys. None: nothing is checked.

    Attributes:
        missing_rewards: counts groups without a reward, of all batches.
        errors: what ends the run, even if the loop catches them.

    Raises:
        ConfigError: the curriculum asks the policy, or has other rows.
    """

    def __init__(
        self,
        curriculum: Curriculum,
        build: Build,
        *,
        groups_per_batch: int,
        group_size: int,
        batches: int,
        log_path: str,
        fill: FillSettings = FillSettings(),  # noqa: B008 - frozen
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        refuse(curriculum.selection.policy_use, "policy", "Tinker's loop")
        refuse(curriculum.allocation.looks_first, "looking first", "Tinker's loop")
        if rows is not None:
            curriculum.check_rows(DatasetRows(rows), "rows")
        self.curriculum, self.build, self.fill = curriculum, build, fill
        self.groups_per_batch, self.group_size, self.batches = groups_per_batch, group_size, batches
        self.saved = SavedCurricula(Path(log_path).expanduser())
        self._is_started = False
        self._latest: BatchSlots | None = None
        self.missing_rewards = MissingRewards()
        self.errors: list[CurroError] = []
        install_credit()

    def __len__(self) -> int:
        return self.batches

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        """The batch of this number, from the curriculum as it is now.

        Raises:
            ConfigError: rollouts are made by an executor.
            CheckpointError: the loop resumes at this batch, and nothing was saved before it.
            ExhaustedError: too few prompts are free.
            FillError: a slot of an earlier batch found no group, and `when_short` is "error".
        """
        if self.errors:
            raise self.errors[0]  # a strategy that catches the errors of groups has caught it
        if get_rollout_executor() is not None:
            raise ConfigError(
                "a curriculum learns in the process that rolls out: leave rollout_executor out of train.main"
            )
        if not self._is_started:
            self.saved.restore(self.curriculum, index)
            self._is_started = True
        slots = self._latest = BatchSlots(self, self.groups_per_batch, index, is_batch=True)
        prompts = slots.draw(self.groups_per_batch, self.groups_per_batch * self.group_size)
        slots.open = len(prompts)
        return [CurriculumGroup(prompt, slots) for prompt in prompts]

    def metrics(self) -> dict[str, float]:
        """The curriculum's, and the counts `fill/...` of the latest batch, as they are now."""
        counts = {} if self._latest is None else self._latest.fill.batch_counts.metrics()
        return self.curriculum.metrics() | counts


ADVICE = {"stale": "", "filtered": "", "expired": "", "failed": "look for their errors in the loop's log"}


@dataclass(frozen=True)
class AssignedPrompt:
    """The prompt that a slot rolls out: its number, its ticket, and how many rollouts it gets."""

    prompt: int
    ticket: int
    rollouts: int


class BatchSlots:
    """Draws the prompts for the slots of one batch, and settles their tickets.

    The loop rolls all slots out at the same time, and each ends with one group. A slot whose group the gate
    rejects is given another prompt, until a group is admitted or the fill allows no more.

    Args:
        data: the data set that gave the batch out.
        n: how many slots.
        step: the batch's number, which is the training step of the loop.
        is_batch: whether the data set's state is saved when all slots have ended.

    Attributes:
        open: how many slots have not ended.
        metrics: what the loop logs with each rollout.
    """

    def __init__(self, data: CurriculumDataset, n: int, step: int, *, is_batch: bool) -> None:
        self.data, self.curriculum, self.is_batch = data, data.curriculum, is_batch
        self.metrics = {f"curro/{name}": number for name, number in data.metrics().items()}
        self.fill: Fill[int] = Fill(data.fill, size=self.curriculum.table.size, advice=ADVICE)
        self.fill.begin(n, step)
        self.open = n

    def draw(self, n: int, budget: int) -> list[AssignedPrompt]:
        """The next n prompts; fewer where the allocation gives some of them none of the budget."""
        has_budget = self.curriculum.has_allocation and self.curriculum.allocation.needs_budget
        step = max(self.fill.step, self.curriculum.step)  # the asynchronous loop has begun a later batch
        draw = select_unseen(
            self.curriculum, self.fill, n, step=step, rollouts=budget if has_budget else None
        )
        sizes_P = np.where(draw.rollouts > 0, draw.rollouts, self.data.group_size)
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
    ) -> Verdict:
        """Settle a finished group.

        Args:
            rewards: float64 (G,), NaN where a rollout has none.
            named: their parts, (G,) each.

        Raises:
            RewardError: the curriculum refuses the rewards; or as many groups as a batch has have none, and
                no group before them had one.
        """
        feedback = Feedback.of_group(assigned.ticket, rewards, named)
        verdict = self.curriculum.observe(**feedback.arguments())
        self.fill.settle(feedback, verdict, [assigned.ticket])
        if not self.curriculum.ledger.observed:
            try:
                self.data.missing_rewards.count(feedback, self.fill.n)
            except RewardError as error:
                raise self.fatal(error) from None
        return verdict

    def lose(self, assigned: AssignedPrompt, why: str) -> None:
        """Drop the ticket of a group that was not observed: "failed" or "cancelled"."""
        if assigned.ticket not in self.fill.in_flight:
            return  # it was observed, and something failed after that
        self.fill.mark_failed(assigned.ticket, why)
        self.curriculum.drop([assigned.ticket])

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
        self.data.errors.append(error)
        return error

    def end(self) -> None:
        """One slot has ended; after the last one, the tickets that were held are dropped."""
        self.open -= 1
        if self.open == 0:
            if held := self.fill.release():
                self.curriculum.drop(held, "")
            if self.is_batch:
                self.data.saved.save(self.curriculum, self.fill.step + 1)


class CurriculumGroup(EnvGroupBuilder):
    """One slot of a batch, which `FilledGroups` rolls out.

    Attributes:
        assigned: the prompt in flight; None once the slot has ended.
        slots: all slots of the batch.
        final_rewards: (reward, metrics) of each trajectory of the group that ended the slot.
    """

    def __init__(self, assigned: AssignedPrompt, slots: BatchSlots) -> None:
        self.slots = slots
        self.assigned: AssignedPrompt | None = assigned
        self.final_rewards: list[tuple[float, Metrics]] = []
        self.builder(assigned)

    def begin(self) -> AssignedPrompt:
        """The prompt to roll out first: the batch's, or a new one if the slot has ended before.

        Up to cookbook 0.5, the asynchronous loop rolls a slot out again when its group has become too old.
        """
        if self.assigned is None:
            data = self.slots.data
            self.slots = BatchSlots(data, 1, data.curriculum.step, is_batch=False)
            self.assigned = self.slots.draw(1, data.group_size)[0]
        return self.assigned

    def builder(self, assigned: AssignedPrompt) -> EnvGroupBuilder:
        """The builder of this prompt's environments."""
        self._builder = self.slots.data.build(assigned.prompt, assigned.rollouts)
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

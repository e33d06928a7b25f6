"""The data set of Tinker's loops: each batch's prompts are chosen when the loop asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinker_cookbook.checkpoint_utils import load_checkpoints_file
from tinker_cookbook.rl.rollouts import get_rollout_executor
from tinker_cookbook.rl.types import EnvGroupBuilder, RLDataset

from curro.contrib.tinker.slots import BatchSlots, Build, CurriculumGroup, install_credit
from curro.core.bases import refuse
from curro.core.curriculum import Curriculum
from curro.core.errors import CheckpointError, ConfigError, CurroError
from curro.core.groups import MissingRewards
from curro.core.identity import DatasetRows
from curro.rollout.fill_settings import FillSettings
from curro.runs.writer import RunWriter

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
        log_path: that of `train.Config`; the curriculum is saved in its folder `curro`, and a loop that
            resumes goes on with what belongs to its batch.
        fill: what happens when the limit is reached and all groups of a slot were rejected: "top-up" trains
            on the slot's most informative group, "finish" sets that group's advantages to 0, and "error" ends
            the run.
        rows: the rows that `build` makes environments of, with the columns `prompt` and `answer`. A
            curriculum whose prompts are not these rows in this order is refused; one that was built from a
            bare number takes over their keys. None: nothing is checked.
        run_folder: where groups and metrics are written to, for `curro watch`; None for nowhere.

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
        run_folder: str | None = None,
    ) -> None:
        refuse(curriculum.selection.policy_use, "policy", "Tinker's loop")
        refuse(curriculum.allocation.looks_first, "looking first", "Tinker's loop")
        if rows is not None:
            curriculum.check_rows(DatasetRows(rows), "rows")
        self.curriculum, self.build, self.fill = curriculum, build, fill
        self.groups_per_batch, self.group_size, self.batches = groups_per_batch, group_size, batches
        self.saved = SavedCurricula(Path(log_path).expanduser())
        self._writer: RunWriter | None = None
        if run_folder is not None:
            self._writer = RunWriter.of_host(Path(run_folder).expanduser(), curriculum)
        self._is_started = False
        self._latest: BatchSlots | None = None
        self._missing_rewards = MissingRewards()
        self._errors: list[CurroError] = []
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
        if self._errors:
            raise self._errors[0]  # a strategy that catches the errors of groups has caught it
        if get_rollout_executor() is not None:
            raise ConfigError(
                "a curriculum learns in the process that rolls out: leave rollout_executor out of train.main"
            )
        if not self._is_started:
            self.saved.restore(self.curriculum, index)
            if self._writer is not None:
                self._writer.begin(index)
            self._is_started = True
        slots = self._latest = self._slots(self.groups_per_batch, index, is_batch=True)
        prompts = slots.draw(self.groups_per_batch, self.groups_per_batch * self.group_size)
        slots.open = len(prompts)
        return [CurriculumGroup(self.build, prompt, slots, self._single_slot) for prompt in prompts]

    def metrics(self) -> dict[str, float]:
        """The curriculum's, and the counts `fill/...` of the latest batch, as they are now."""
        counts = {} if self._latest is None else self._latest.fill.batch_counts.metrics()
        return self.curriculum.metrics() | counts

    def _slots(self, n: int, step: int, *, is_batch: bool) -> BatchSlots:
        def end() -> None:
            if is_batch:
                self.saved.save(self.curriculum, step + 1)
                if self._writer is not None:
                    self._writer.step(step + 1, self.metrics())

        metrics = {f"curro/{name}": number for name, number in self.metrics().items()}
        return BatchSlots(
            self.curriculum, self.fill, n, step, self.group_size, metrics, self._missing_rewards,
            self._errors, end, self._writer,
        )  # fmt: skip

    def _single_slot(self) -> BatchSlots:
        """A batch of one slot, for a group that the loop rolls out a second time."""
        return self._slots(1, self.curriculum.step, is_batch=False)

"""The run folder: what a run was started with, what happened in it, and what it knows of its prompts.

docs/watch.md lists its files and the fields of their lines. Besides, `best/step-N/` has its evaluation in
`evaluation.json`, `table.parquet` the data set's fingerprint as `curro.fingerprint`, and `.lock` names the
process that writes to the folder. Times are cumulative, without evaluations.

Steps are counted from 1 in all of them, and step 0 of the metrics is before training. This module writes
them all; `curro.runs.reader` reads the growing ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curro.core.errors import RunError
from curro.core.files import open_regular, read_parquet, replacing
from curro.runs.json_lines import (
    append_rows,
    check_whole,
    decode_row,
    encode_row,
    read_object,
    read_rows,
    write_object,
)
from curro.runs.lock import is_unused, only_process

if TYPE_CHECKING:
    import pyarrow as pa

    from curro.core.prompts import PromptTable


PREDICTED = ("predicted_variance", "predicted_rate")
"""In the prompt table and of finished groups: what a method predicted of a group when it chose it."""

HOSTED = "curro"
"""The folder that a host adapter writes a run to, in the output folder of the framework's trainer."""

CURRICULUM = "curriculum.npz"
"""The curriculum's file in the folder `HOSTED` of a checkpoint of TRL."""

_TAIL = 1 << 22
"""Bytes that hold a line of metrics; one of 5,000 sources has 150 KB."""


class RunFolder:
    """One run's folder; made by `create` or `open`.

    Lines are written to the disk's cache as they come, so a killed process loses at most the line it
    was writing: readers pass over such a half line, and the next append replaces it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.best = path / "best"
        self._config = path / "config.json"
        self.metrics_file = path / "metrics.jsonl"
        self.groups_file = path / "groups.jsonl"
        self.rollouts_file = path / "rollouts.jsonl"
        self._table = path / "table.parquet"

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any]) -> RunFolder:
        """Start a run in a new or empty folder.

        Raises:
            RunError: the folder is not empty, or the path is a file.
            LockedError: another process starts a run there.
        """
        run = cls(Path(path))
        run.check_unused()
        run.path.mkdir(parents=True, exist_ok=True)
        with run.locked():
            run.check_unused()
            write_object(run._config, config)
        return run

    def check_unused(self) -> None:
        """Raises RunError if no run can start: the folder is not empty, or the path is a file."""
        if self.path.exists() and not (self.path.is_dir() and is_unused(self.path)):
            go_on = f", or continue its run with --resume {self.path}" if self._has("settings") else ""
            raise RunError(
                f"{self.path} exists and is not an empty folder: choose another one with --out{go_on}"
            )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from writing to the folder.

        Raises:
            LockedError: one of them is; the message names it.
        """
        return only_process(self.path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The run in an existing folder.

        A trainer's own output folder has it in a folder `curro`; one of the trainer's checkpoints, beside
        which that folder stands, opens it too.

        Raises:
            RunError: there is no such folder, or it holds no run.
        """
        run = cls(Path(path))
        hosted = cls(run.path / HOSTED)
        if hosted._config.is_file():
            return hosted
        if (run.path / HOSTED / CURRICULUM).is_file():
            hosted = cls(run.path.absolute().parent / HOSTED)
            if hosted._config.is_file():
                return hosted
        if not run.path.is_dir():
            problem = "it is a file, not a run's folder" if run.path.exists() else "there is no such folder"
            raise RunError(f"no run at {run.path}: {problem}")
        if not run._config.is_file() or run._has("model_type", "architectures"):
            raise RunError(
                f"{run.path} holds no run: it has no config.json of a run, which `curro train` writes first"
            )
        return run

    def _has(self, *names: str) -> bool:
        """Whether there is a config.json with one of these names, of which some are a model's alone."""
        try:
            return self._config.is_file() and not self.config.keys().isdisjoint(names)
        except RunError:
            return False

    @property
    def name(self) -> str:
        """The folder's name, or the trainer's output folder's where a host adapter wrote the run."""
        path = self.path.resolve()
        return path.parent.name if path.name == HOSTED else path.name

    @property
    def config(self) -> dict[str, Any]:
        """What the run was started with."""
        return read_object(self._config)

    @property
    def settings(self) -> dict[str, Any]:
        """What `curro train` was told, complete.

        Raises:
            RunError: something else started the run.
        """
        settings = self.config.get("settings")
        if not isinstance(settings, dict):
            raise RunError(
                f"{self._config} has no settings: the run was not started by `curro train`, so resume it "
                "with the script that started it"
            )
        return settings

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add a training step's line; what is not finite is written as null."""
        append_rows(self.metrics_file, [row])

    def append_groups(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a line for every finished group."""
        append_rows(self.groups_file, rows)

    def append_rollouts(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a line of rollouts for every group of which some are kept."""
        append_rows(self.rollouts_file, rows)

    def metrics(self, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The training steps, in order; null comes back as NaN.

        Raises:
            RunError: a line is damaged, or has none of these columns.
        """
        return list(read_rows(self.metrics_file, columns))

    def has_progress(self) -> bool:
        """Whether the run finished a training step or began a checkpoint; else there is nothing to resume."""
        last = self.latest()
        return (last is not None and last["step"] > 0) or any(self.checkpoints.glob("checkpoint-*"))

    def latest(self) -> dict[str, Any] | None:
        """The last training step, found without reading those before it; None before the first."""
        if not self.metrics_file.exists():
            return None
        where = f"the last line of {self.metrics_file}"
        with open_regular(self.metrics_file) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            lines = file.read(_TAIL).splitlines(keepends=True)
        whole = [line for line in lines[size > _TAIL :] if line.endswith(b"\n")]
        if not whole and size > _TAIL:
            raise RunError(f"{where} is damaged: it is longer than {_TAIL} bytes")
        if not whole:
            return None
        try:
            last = decode_row(whole[-1])
        except ValueError as error:
            raise RunError(f"{where} is damaged: {error}") from error
        check_whole(last, ("step", "rollouts"), where)
        return last

    def groups(self, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The finished groups, in order, likewise."""
        return list(read_rows(self.groups_file, columns))

    def truncate_after(self, step: int) -> None:
        """Forget what was written of later steps, as a run that resumes from `step` will write it again."""
        for path in (self.metrics_file, self.groups_file, self.rollouts_file):
            if path.exists():
                with replacing(path) as part, part.open("wb") as file:
                    for number, row in enumerate(read_rows(path), 1):
                        check_whole(row, ("step",), f"line {number} of {path}")
                        if row["step"] <= step:
                            file.write(encode_row(row))

    def sizes(self) -> dict[str, int]:
        """How many bytes each file of lines has."""
        files = (self.metrics_file, self.groups_file, self.rollouts_file)
        return {path.name: path.stat().st_size if path.exists() else 0 for path in files}

    def write_table(self, table: PromptTable) -> None:
        """Save the prompt table, its steps counted as in the other files.

        An interrupted save leaves the table that was there before.
        """
        import pyarrow.parquet as pq

        with replacing(self._table) as part:
            pq.write_table(count_from_one(table.to_arrow()), part)

    def table(self) -> pa.Table:
        """The prompt table as last saved, its data set's fingerprint in the schema's metadata.

        Raises:
            RunError: none was saved yet, or the file is damaged.
        """
        if not self._table.is_file():
            raise RunError(f"{self.path} has no prompt table yet: it is saved with the first checkpoint")
        return read_parquet(self._table)


def count_from_one(table: pa.Table) -> pa.Table:
    """A prompt table whose `last_step` is counted from 1, as the steps of a run's lines are; -1 stays.

    The port counts the steps that have finished, from 0.
    """
    name = "last_step"
    if name not in table.column_names:
        return table
    steps = table[name].to_numpy()
    return table.set_column(table.column_names.index(name), name, [np.where(steps < 0, steps, steps + 1)])


def is_run(path: Path) -> bool:
    """Whether a folder, or the trainer's output around it, holds a run."""
    try:
        RunFolder.open(path)
    except RunError:
        return False
    return True


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """List the runs at these paths in order: a folder of runs gives its runs, and files are passed over.

    A path if nothing is yet, or an empty folder, stays: its run may begin.

    Raises:
        RunError: a folder that holds something else, or only files.
    """
    runs: list[Path] = []
    for path in (path for path in paths if not path.is_file()):
        inside = [] if is_run(path) or not path.is_dir() else sorted(filter(is_run, path.iterdir()))
        if path.is_dir() and not inside and not is_run(path) and any(path.iterdir()):
            raise RunError(
                f"{path} holds no run and no folder with one: name the folder of a run, such as the --out of "
                "curro train or the output_dir of a TRL script"
            )
        runs += inside or [path]
    if not runs:
        raise RunError("only files were named: name the folders of runs, or the folder that holds them")
    return list(dict.fromkeys(runs))

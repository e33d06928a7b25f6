"""The run folder: what a run was started with, what happened in it, and what it knows of its prompts.

    config.json       everything the run was started with
    metrics.jsonl     a line a training step: `step`, `rollouts`, `seconds` and `cpu_seconds` (cumulative;
                      evaluation is not counted), `reward`, `signal_share`, all of `Curriculum.metrics()`, and
                      `eval/pass@k` on steps with an evaluation
    groups.jsonl      a line a finished group: `step`, `prompt`, `key`, `reason`, `mean`, `variance`,
                      `admitted`, and where the method predicts one of `PREDICTED`, null without a prediction
    table.parquet     the prompt table, with the data set's fingerprint as `curro.fingerprint`
    checkpoints/      of the trainer, to resume from
    model/            the trained model

This module is the only reader and writer of the four files.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curro.errors import CurroError

if TYPE_CHECKING:
    import pyarrow as pa

    from curro.prompts import PromptTable


PREDICTED = ("predicted_variance", "predicted_rate")
"""In the prompt table and of finished groups: what a method predicted of a group when it chose it."""

_TAIL = 1 << 16
"""Bytes that hold at least one line of metrics."""


class RunError(CurroError):
    """A folder that holds no run, holds another one, or is damaged."""


class RunFolder:
    """One run's folder; made by `create` or `open`.

    Lines are written to the disk's cache as they come, so a killed process loses at most the line it
    was writing: readers pass over such a half line, and the next append replaces it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self._config = path / "config.json"
        self._metrics = path / "metrics.jsonl"
        self._groups = path / "groups.jsonl"
        self._table = path / "table.parquet"

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: Mapping[str, Any]) -> RunFolder:
        """Start a run in a new or empty folder.

        Raises:
            RunError: the folder is in use, or the path is a file.
        """
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} exists and is not an empty folder: choose another one for this run")
        folder.mkdir(parents=True, exist_ok=True)
        run = cls(folder)
        with replacing(run._config) as part:
            part.write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The run in an existing folder.

        Raises:
            RunError: there is no such folder, or it holds no run.
        """
        run = cls(Path(path))
        if not run.path.is_dir():
            raise RunError(f"no run at {run.path}: there is no such folder")
        if not run._config.is_file():
            raise RunError(
                f"{run.path} holds no run: it has no config.json, which `curro train` writes first"
            )
        return run

    @property
    def config(self) -> dict[str, Any]:
        """What the run was started with."""
        try:
            return as_object(self._config.read_bytes())
        except ValueError as error:
            raise RunError(f"{self._config} is damaged: {error}") from error

    @property
    def settings(self) -> dict[str, Any]:
        """What `curro train` was told, complete.

        Raises:
            RunError: something else started the run.
        """
        settings = self.config.get("settings")
        if not isinstance(settings, dict):
            raise RunError(f"{self._config} has no settings: the run was not started by `curro train`")
        return settings

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Add a training step's line; what is not finite is written as null."""
        append_rows(self._metrics, [row])

    def append_groups(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a line for every finished group."""
        append_rows(self._groups, rows)

    def metrics(self, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The training steps, in order; null comes back as NaN.

        Raises:
            RunError: a line is damaged, or has none of these columns.
        """
        return list(read_rows(self._metrics, columns))

    def latest(self) -> dict[str, Any] | None:
        """The last training step, found without reading those before it; None before the first."""
        if not self._metrics.exists():
            return None
        with self._metrics.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        try:
            return _decode(whole[-1]) if whole else None
        except ValueError as error:
            raise RunError(f"the last line of {self._metrics} is damaged: {error}") from error

    def groups(self, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The finished groups, in order, likewise."""
        return list(read_rows(self._groups, columns))

    def truncate_after(self, step: int) -> None:
        """Forget what was written of later steps, as a run that resumes from `step` will write it again."""
        for path in (self._metrics, self._groups):
            if path.exists():
                with replacing(path) as part, part.open("wb") as file:
                    file.writelines(_encode(row) for row in read_rows(path, ["step"]) if row["step"] <= step)

    def write_table(self, table: PromptTable) -> None:
        """Save the prompt table; an interrupted save leaves the one that was there before."""
        import pyarrow.parquet as pq

        with replacing(self._table) as part:
            pq.write_table(table.to_arrow(), part)

    def table(self) -> pa.Table:
        """The prompt table as last saved, its data set's fingerprint in the schema's metadata.

        Raises:
            RunError: none was saved yet, or the file is damaged.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._table.is_file():
            raise RunError(f"{self.path} has no prompt table yet: it is saved with the first checkpoint")
        try:
            return pq.read_table(self._table)
        except pa.ArrowInvalid as error:
            raise RunError(f"{self._table} is damaged: {error}") from error


class replacing:
    """Hand out a temporary path whose file takes the target's place when all went well."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.part = target.with_name(f".{target.name}.{os.getpid()}.part")

    def __enter__(self) -> Path:
        return self.part

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            if failed is None:
                with self.part.open("rb") as file:
                    os.fsync(file.fileno())
                os.replace(self.part, self.target)
        finally:
            self.part.unlink(missing_ok=True)


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    lines = [_encode(row) for row in rows]
    with path.open("a+b") as file:
        end = file.tell()
        if end and _byte(file, end - 1) != b"\n":
            while end and _byte(file, end - 1) != b"\n":
                end -= 1
            file.truncate(end)
        file.write(b"".join(lines))


def _byte(file: Any, position: int) -> bytes:
    file.seek(position)
    return file.read(1)


def _encode(row: Mapping[str, Any]) -> bytes:
    return json.dumps({name: _plain(value) for name, value in row.items()}).encode() + b"\n"


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(path: Path, columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line without its end was being written and is left out.

    Raises:
        RunError: a line that is no object, or lacks one of the columns.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    row = _decode(line)
                except ValueError as error:
                    raise RunError(f"line {number} of {path} is damaged: {error}") from error
                missing = [name for name in columns if name not in row]
                if missing:
                    raise RunError(f"line {number} of {path} is damaged: it has no {missing[0]!r}")
                yield row


def _decode(line: bytes) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in as_object(line).items()}


def as_object(text: bytes) -> dict[str, Any]:
    """JSON that holds an object; raises ValueError for any other."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"it is no object but {type(value).__name__}")
    return value

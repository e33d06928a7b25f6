"""Reads a run's files as they grow, and keeps what was read as arrays."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa

from curro.errors import RunError
from curro.report.growing_columns import GrowingColumns
from curro.report.history import LEARNABLE, SOLVED, UNSOLVED, Groups, History, scale
from curro.storage.growing_file import BLOCK, Block, GrowingFile, line_starts, parse_columns
from curro.storage.run_folder import PREDICTED, RunFolder

REQUIRED = ("step", "prompt", "reason")
FLOATS = ("mean", "variance", "rollouts", "tokens", "cut", *PREDICTED)
TYPES = {
    **{name: pa.int64() for name in REQUIRED},
    **{name: pa.float64() for name in FLOATS},
    "admitted": pa.bool_(),
    "source": pa.string(),
}
"""What is read of a group's line."""


class RunReader:
    """A run's metrics and groups so far.

    Reading goes on where it stopped, a block at a time, so that a page can follow a run for days: a line is
    parsed once, and a few numbers a group are all that is kept.

    Attributes:
        version: grows with all that is read.
        left: bytes that have not been read yet.
        lines: how many lines of metrics were read.

    Raises:
        RunError: in `advance`, a damaged file.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.config = folder, folder.config
        self.version = self.left = 0
        self._metrics_file, self._groups_file = (
            GrowingFile(folder.path / name) for name in ("metrics.jsonl", "groups.jsonl")
        )
        self._rules = scale(self.config)
        self._metrics = GrowingColumns()
        self._forget_groups()

    @property
    def lines(self) -> int:
        return len(self._metrics)

    def advance(self, most: int = BLOCK) -> bool:
        """Read the next block of the metrics, or of the groups where the metrics are at their end.

        Returns:
            whether there is more to read now.
        """
        block = self._metrics_file.read(most)
        if not block.start and len(self._metrics):
            self._metrics, self.version = GrowingColumns(), self.version + 1
        if block.data:
            self._read_metrics(block)
        left = block.left if block.data else 0
        if not left:
            groups = self._groups_file.read(most)
            if not groups.start and len(self._groups):
                self._forget_groups()
                self.version += 1
            if groups.data:
                self._read_groups(groups)
                left = groups.left
        self.left = left
        return bool(left)

    def history(self) -> History:
        """The run so far; its arrays do not change when more is read."""
        metrics = {name: self._metrics[name] for name in self._metrics.names()}
        return History(self.folder.path.resolve().name, self.config, metrics, self._groups_so_far())

    def _read_metrics(self, block: Block) -> None:
        table = parse_columns(block, self._metrics_file.path, required=("step",))
        columns = {
            name: table[name].cast(pa.float64()).to_numpy()
            for name in table.column_names
            if pa.types.is_integer(table[name].type)
            or pa.types.is_floating(table[name].type)
            or pa.types.is_null(table[name].type)
        }
        self._metrics.append(columns, table.num_rows)
        self.version += 1

    def _forget_groups(self) -> None:
        self._groups = GrowingColumns()
        self._sources: dict[str, int] = {}
        self._last_row = np.empty(0, np.int64)

    def _read_groups(self, block: Block) -> None:
        table = parse_columns(block, self._groups_file.path, TYPES, REQUIRED)
        starts = line_starts(block)
        if len(starts) != table.num_rows:
            raise RunError(f"{self._groups_file.path} is damaged: it has empty lines")
        kept = np.flatnonzero(~np.isnan(table["mean"].to_numpy()))
        columns = {name: table[name].to_numpy()[kept] for name in (*REQUIRED, *FLOATS)}
        columns["admitted"] = table["admitted"].fill_null(True).to_numpy()[kept]
        columns["source"] = self._numbers(table["source"])[kept]
        columns["line"] = starts[kept]
        columns["rate"] = self._rules.success_rate(columns.pop("mean"))
        flat = self._rules.is_flat(columns["variance"])
        ends = np.where(columns["rate"] >= 0.5, SOLVED, UNSOLVED)
        columns["state"] = np.where(flat, ends, LEARNABLE).astype(np.int64)
        columns["earlier"] = self._link(columns["prompt"])
        self._groups.append(columns, len(kept))
        self.version += 1

    def _numbers(self, names: pa.ChunkedArray) -> np.ndarray:
        """The numbers of sources, int64; -1 for none."""
        coded = names.combine_chunks().dictionary_encode()
        number = [self._sources.setdefault(name, len(self._sources)) for name in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.array([*number, -1], np.int64)[codes]

    def _link(self, prompts: np.ndarray) -> np.ndarray:
        """The row of each prompt's group before, int64; -1 at its first visit."""
        start, size = len(self._groups), int(prompts.max(initial=-1)) + 1
        if size > len(self._last_row):
            grown = np.full(max(size, 2 * len(self._last_row)), -1)
            grown[: len(self._last_row)] = self._last_row
            self._last_row = grown
        order = np.argsort(prompts, kind="stable")
        repeated = np.zeros(len(prompts), np.bool_)
        repeated[1:] = prompts[order][1:] == prompts[order][:-1]
        earlier = np.empty(len(prompts), np.int64)
        earlier[order] = self._last_row[prompts[order]]
        earlier[order[repeated]] = start + order[np.flatnonzero(repeated) - 1]
        self._last_row[prompts[order]] = start + order  # of equal prompts the last assignment stays
        return earlier

    def _groups_so_far(self) -> Groups:
        groups, path = self._groups, self._groups_file.path
        if not len(groups):
            groups = GrowingColumns()
            floats = dict.fromkeys(("rate", *FLOATS[1:]), np.empty(0))
            whole = dict.fromkeys((*REQUIRED, "state", "source", "earlier", "line"), np.empty(0, np.int64))
            groups.append({**floats, **whole, "admitted": np.empty(0, np.bool_)}, 0)
        latest = np.zeros(len(groups), np.bool_)
        latest[self._last_row[self._last_row >= 0]] = True
        predicted = {name: groups[name] for name in PREDICTED if not np.isnan(groups[name]).all()}
        names = [name for name in groups.names() if name not in PREDICTED]
        columns = {name: groups[name] for name in names}
        return Groups(**columns, predicted=predicted, latest=latest, sources=list(self._sources), path=path)


def read_history(run: RunFolder | str | os.PathLike[str]) -> History:
    """Read a run to its end.

    Raises:
        RunError: no run, a damaged one, or one that has not finished a training step yet.
    """
    reader = RunReader(run if isinstance(run, RunFolder) else RunFolder.open(run))
    while reader.advance():
        pass
    if not reader.lines:
        raise RunError(
            f"the run in {reader.folder.path} has not finished a training step yet: there is nothing to show"
        )
    return reader.history()

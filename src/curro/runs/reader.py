"""Reads a run's files as they grow, and keeps what was read as arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from curro.core.errors import ConfigError, RunError
from curro.core.files import is_number
from curro.core.groups import largest_reward
from curro.core.prompts import PromptTable
from curro.runs.folder import PREDICTED, RunFolder
from curro.runs.json_lines import (
    BLOCK,
    Block,
    GrowingFile,
    as_object,
    line_starts,
    parse_columns,
)


class GrowingColumns:
    """Named columns of equal length; a column that a row lacks is NaN there.

    A column that `__getitem__` gave stays as it is while rows are appended.
    """

    def __init__(self) -> None:
        self.length = 0
        self._columns: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name][: self.length]

    def names(self) -> list[str]:
        """In the order in which they came."""
        return list(self._columns)

    def append(self, rows: Mapping[str, np.ndarray], count: int) -> None:
        """Add `count` rows; a column that is new has to be of floats, unless there are no rows yet."""
        end = self.length + count
        for name, values in rows.items():
            if name not in self._columns:
                self._columns[name] = np.empty(max(end, 16), values.dtype)
                if self.length:
                    self._columns[name][: self.length] = np.nan
        for name, column in self._columns.items():
            if end > len(column):
                grown = np.empty(max(end, 2 * len(column)), column.dtype)
                grown[: self.length] = column[: self.length]
                self._columns[name] = column = grown
            column[self.length : end] = rows.get(name, np.nan)
        self.length = end


UNSOLVED, LEARNABLE, SOLVED = 0, 1, 2
"""The state of a prompt by one group: all failed, rewards varied, all succeeded."""


@dataclass(frozen=True)
class GroupColumns:
    """The finished groups with a reward in order; arrays of shape (F,).

    Attributes:
        step: int64, the training step.
        prompt: int64.
        reason: int64, values of `curro.Reason`.
        rate: float64, the mean reward on the scale where 0 is complete failure and 1 complete success.
        variance: float64, of the rewards.
        state: int64, UNSOLVED, LEARNABLE or SOLVED.
        admitted: bool, whether it was trained on.
        rollouts, tokens, cut: float64, how many rollouts the group had, how many tokens they have together,
            and how many of them were cut at the length limit; NaN where the run did not write it down.
        source: int64, the number of the prompt's source in `sources`; -1 without one.
        predicted: by the names of `PREDICTED` (run_folder) that the run has, float64, NaN where a group
            had no prediction.
        earlier: int64, the row of the same prompt's group before, -1 at its first visit.
        latest: bool, whether it is its prompt's last.
        sources: the names of the sources.
        line: int64, where in the file of groups the group's line begins.
        path: that file.
    """

    step: np.ndarray
    prompt: np.ndarray
    reason: np.ndarray
    rate: np.ndarray
    variance: np.ndarray
    state: np.ndarray
    admitted: np.ndarray
    rollouts: np.ndarray
    tokens: np.ndarray
    cut: np.ndarray
    source: np.ndarray
    predicted: Mapping[str, np.ndarray]
    earlier: np.ndarray
    latest: np.ndarray
    sources: list[str]
    line: np.ndarray
    path: Path

    @property
    def first(self) -> np.ndarray:
        """bool (F,), whether a group is its prompt's first."""
        return self.earlier < 0

    def key(self, row: int) -> str:
        """The key of a group's prompt, from the group's line; its number where the line is gone."""
        return str(self._line(row).get("key", f"prompt {self.prompt[row]}"))

    def text(self, row: int) -> str:
        """The beginning of a group's prompt, from the group's line; its key where the line has none."""
        return str(self._line(row).get("text") or self.key(row))

    def ticket(self, row: int) -> str:
        """The ticket of a group, from the group's line; "None" where the line has none."""
        return str(self._line(row).get("ticket"))

    def _line(self, row: int) -> dict[str, Any]:
        try:
            with self.path.open("rb") as file:
                file.seek(int(self.line[row]))
                return as_object(file.readline())
        except (OSError, ValueError):
            return {}


@dataclass(frozen=True)
class History:
    """A run, read once.

    Attributes:
        name: the run's folder, of a trainer's run the trainer's own.
        config: what the run was started with.
        metrics: by name, float64 (S,) for the S lines of metrics; NaN where a line lacks the name.
        groups: the finished groups.
        generated: of all groups, those without a reward too: `step`, int64 (L,), and `rollouts` and
            `tokens`, float64 (L,), NaN where the run did not write them down.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Mapping[str, np.ndarray]
    groups: GroupColumns
    generated: Mapping[str, np.ndarray]

    def series(self, name: str, against: str = "step") -> tuple[np.ndarray, np.ndarray]:
        """Where a metric and `against` are known: the values of `against`, and its own."""
        if name not in self.metrics or against not in self.metrics:
            return np.empty(0), np.empty(0)
        x, values = self.metrics[against], self.metrics[name]
        known = ~(np.isnan(x) | np.isnan(values))
        return x[known], values[known]

    def last(self, name: str) -> float:
        """The latest known value of a metric; NaN if there is none."""
        values = self.series(name)[1]
        return float(values[-1]) if len(values) else np.nan

    def tokens_after(self, rollouts: float) -> float:
        """How many tokens the run had generated when it had spent so many rollouts; NaN if none knows."""
        step_S, spent_S = self.series("rollouts")
        step_L = self.generated["step"]
        order_L = np.argsort(step_L, kind="stable")
        tokens_L = np.concatenate([[0.0], self.generated["tokens"][order_L].cumsum()])
        tokens_S = tokens_L[np.searchsorted(step_L[order_L], step_S, side="right")]
        return float(np.interp(rollouts, [0, *spent_S], [0, *tokens_S]))

    @property
    def method(self) -> str:
        """What chose the prompts, as it is typed: `prioritized-replay: variant=published`."""
        curriculum = self.config.get("curriculum")
        return _typed(curriculum.get("selection", "") if isinstance(curriculum, Mapping) else curriculum)

    @property
    def curriculum(self) -> str:
        """All parts of the curriculum as they are typed: `frontier admission=signal`."""
        parts = self.config.get("curriculum")
        kinds = ("allocation", "advantage", "admission")
        others = (
            [f"{kind}={_typed(parts[kind])}" for kind in kinds if parts.get(kind)]
            if isinstance(parts, Mapping)
            else []
        )
        return " ".join([self.method or self.name, *others])

    def setting(self, name: str) -> int | None:
        """A number of what `curro train` was told; None where another program started the run."""
        settings = self.config.get("settings")
        return _count(settings.get(name)) if isinstance(settings, Mapping) else None

    def held_out(self, data: str) -> int | None:
        """How many held-out prompts a data set has, "" for all; None where the run does not tell."""
        sizes = self.config.get("held_out")
        if not isinstance(sizes, Mapping):
            return None
        counts = [_count(size) for name, size in sizes.items() if data in ("", name)]
        return sum(count or 0 for count in counts) or None

    @property
    def steps(self) -> int | None:
        """How many training steps the run is to have; None where it does not tell."""
        return _count(self.config.get("steps"))

    @property
    def evaluations(self) -> list[str]:
        """The names of the held-out pass@k that have a value, by k.

        They are `eval/NAME/pass@k` if there are several data sets.
        """
        names = [name for name in self.metrics if re.fullmatch(r"eval/(.+/)?pass@\d{1,9}", name)]
        return sorted(
            (name for name in names if len(self.series(name)[1])), key=lambda name: (len(name), name)
        )

    @property
    def prompts(self) -> int:
        """Number of prompts in the data set as far as the run tells, at least the number seen."""
        seen = int(self.groups.first.sum())
        unseen = self.last("table/unseen")
        return seen + (int(unseen) if 0 <= unseen < MOST_PROMPTS else 0)


def _typed(part: Any) -> str:
    """A part of a curriculum as it is typed: its name and its options."""
    if not isinstance(part, Mapping):
        return str(part or "")
    options = ", ".join(f"{name}={value}" for name, value in part.items() if name != "name")
    return f"{part.get('name', '')}: {options}" if options else str(part.get("name", ""))


def _count(value: Any) -> int | None:
    """A number that a run can have; None for any other value."""
    return value if type(value) is int and 0 < value < MOST_STEPS else None


def scale(config: Mapping[str, Any]) -> PromptTable:
    """A table that knows the run's reward range: the port's own success rate and tolerance."""
    curriculum = config.get("curriculum")
    bounds = curriculum.get("reward_range", (0.0, 1.0)) if isinstance(curriculum, Mapping) else (0.0, 1.0)
    return PromptTable(1, reward_range=bounds)


MOST_STEPS, MOST_PROMPTS = 10_000_000, 1 << 25
"""A page counts by step and by prompt, so these bound the memory that it takes."""

MOST_TOKENS = 1 << 40
"""Upper bound for the tokens of one group. Larger values are damage; smaller ones add up exactly."""

ROOM = 1 << 28
"""Bytes that a table of metrics may take, besides sixteen for each of its file's."""

_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"?(\s*:)?')
"""A string of JSON, and the colon after a name. One without an end matches too, and is read once."""

LARGEST = 1e100
"""Metrics from this size on count for none: a page could not take their squares."""

GENERATED = {"step": MOST_STEPS, "rollouts": MOST_TOKENS, "tokens": MOST_TOKENS}
"""What is read of groups without a reward too, and below which number it lies."""

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

    Reading continues where it ended, a block at a time, so that a page can follow a run for days: a line is
    parsed once, and a few numbers a group are all that is kept.

    Attributes:
        version: grows with all that is read.
        left: bytes that have not been read yet.
        lines: how many lines of metrics were read.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.config = folder, folder.config
        self.version = self.left = 0
        self._metrics_file, self._groups_file = (
            GrowingFile(folder.path / name) for name in ("metrics.jsonl", "groups.jsonl")
        )
        try:
            self._rules = scale(self.config)
        except ConfigError as error:
            raise RunError(f"{folder.path / 'config.json'} is damaged: {error}") from error
        self._metrics, self._names = GrowingColumns(), set[bytes]()
        self._forget_groups()

    @property
    def lines(self) -> int:
        return len(self._metrics)

    def advance(self, most: int = BLOCK) -> bool:
        """Read the next block of metrics or, after their end, of groups; returns whether there is more."""
        block = self._metrics_file.read(most)
        if not block.start and len(self._metrics):
            self._metrics, self._names, self.version = GrowingColumns(), set(), self.version + 1
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
        generated = {name: self._generated[name] for name in GENERATED}
        return History(self.folder.name, self.config, metrics, self._groups_so_far(), generated)

    def _read_metrics(self, block: Block) -> None:
        self._check_names(block)
        table = parse_columns(block, self._metrics_file.path, required=("step",))
        columns = {}
        for name in table.column_names:
            if is_number(table[name].type):
                values = table[name].cast(pa.float64()).to_numpy()
                columns[name] = np.where(np.abs(values) < LARGEST, values, np.nan)
        self._check_count(self._metrics_file.path, "step", table["step"].to_numpy(), MOST_STEPS)
        self._metrics.append(columns, table.num_rows)
        self.version += 1

    def _check_names(self, block: Block) -> None:
        """Refuse lines of which each has other names: their table has room for every name in every line."""
        self._names |= {text for text, colon in _STRING.findall(block.data) if colon}
        lines, names = len(self._metrics) + block.data.count(b"\n"), len(self._names)
        if names * (8 * lines + 4096) > ROOM + 16 * self._metrics_file.offset:
            raise RunError(
                f"{self._metrics_file.path} is damaged: its first {lines} lines have {names} different names"
            )

    def _forget_groups(self) -> None:
        self._groups, self._generated = GrowingColumns(), GrowingColumns()
        floats = dict.fromkeys(("rollouts", "tokens"), np.empty(0))
        self._generated.append({"step": np.empty(0, np.int64), **floats}, 0)
        self._sources: dict[str, int] = {}
        self._last_row = np.empty(0, np.int64)

    def _read_groups(self, block: Block) -> None:
        table = parse_columns(block, self._groups_file.path, TYPES, REQUIRED)
        starts = line_starts(block)
        if len(starts) != table.num_rows:
            raise RunError(f"{self._groups_file.path} is damaged: it has empty lines")
        generated = {name: table[name].to_numpy() for name in GENERATED}
        for name, limit in GENERATED.items():
            self._check_count(self._groups_file.path, name, generated[name], limit)
        self._generated.append(generated, table.num_rows)
        # without a mean, a group had no reward and was dropped: it is neither a failure nor a visit
        kept = np.flatnonzero(~np.isnan(table["mean"].to_numpy()))
        columns = {name: table[name].to_numpy()[kept] for name in (*REQUIRED, *FLOATS)}
        columns["admitted"] = table["admitted"].fill_null(True).to_numpy()[kept]
        columns["line"] = starts[kept]
        self._check_groups(columns)
        columns["source"] = self._numbers(table["source"].take(kept))
        mean, variance = columns.pop("mean"), columns["variance"]
        columns["rate"], flat = self._rules.success_rate(mean), self._rules.is_flat(variance)
        ends = np.where(self._rules.is_solved(mean, variance), SOLVED, UNSOLVED)
        columns["state"] = np.where(flat, ends, LEARNABLE).astype(np.int64)
        columns["earlier"] = self._link(columns["prompt"])
        self._groups.append(columns, len(kept))
        self.version += 1

    def _check_groups(self, columns: Mapping[str, np.ndarray]) -> None:
        """Refuse numbers that no group has: the port refuses rewards that would give them."""
        path, most = self._groups_file.path, largest_reward(self._rules.reward_range)
        for name, limit in (("prompt", MOST_PROMPTS), ("cut", MOST_TOKENS)):
            self._check_count(path, name, columns[name], limit)
        for name, least, largest in (
            ("mean", -most, most),
            ("variance", 0.0, most**2),
            *((name, -LARGEST, LARGEST) for name in PREDICTED),
        ):
            wrong = columns[name][(columns[name] < least) | (columns[name] > largest)]
            if len(wrong):
                raise RunError(
                    f"{path} is damaged: it has the {name} {wrong[0]:g}, which is not from {least:g} to "
                    f"{largest:g}"
                )

    def _check_count(self, path: Path, name: str, numbers: np.ndarray, limit: int) -> None:
        wrong = numbers[(numbers < 0) | (numbers >= limit) | (numbers != np.floor(numbers))]
        wrong = wrong[~np.isnan(wrong)]  # what a line does not say
        if len(wrong):
            raise RunError(
                f"{path} is damaged: it has the {name} {wrong[0]}, which is no whole number from 0 to "
                f"{limit - 1}"
            )

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

    def _groups_so_far(self) -> GroupColumns:
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
        return GroupColumns(
            **columns, predicted=predicted, latest=latest, sources=list(self._sources), path=path
        )


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

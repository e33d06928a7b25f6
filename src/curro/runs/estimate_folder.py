"""The folder of an estimate: its settings, a line a finished prompt, and the table at the end.

estimate.json         what the estimate was started with
groups.jsonl          a line a prompt, in the order they finished: `prompt`, `key`, `rollouts`, `scored`,
                      `correct`, `truncated`, `mean`, `variance`
pass_rates.parquet    the same in the data set's order, once all prompts are done
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Group, RenderableType
from rich.table import Table

from curro.core.errors import RunError
from curro.core.files import read_parquet, replacing
from curro.core.text import abbreviated
from curro.methods.admission.band import between
from curro.runs.json_lines import append_rows, check_whole, read_object, read_rows, write_object
from curro.runs.lock import is_unused

WHOLE = ("prompt", "rollouts", "scored", "correct", "truncated")
SCHEMA = pa.schema(
    [("prompt", pa.int64()), ("key", pa.string()), *((name, pa.int64()) for name in WHOLE[1:]),
     ("mean", pa.float64()), ("variance", pa.float64())]
)  # fmt: skip
COLUMNS = tuple(SCHEMA.names)


class EstimateFolder:
    """Made by `begin` or `open`. A killed process loses at most the line that it was writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._settings = path / "estimate.json"
        self._groups = path / "groups.jsonl"
        self._table = path / "pass_rates.parquet"

    @classmethod
    def begin(cls, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> EstimateFolder:
        """A new estimate in a new or empty folder, or the unfinished one that is there."""
        folder = cls(Path(path))
        folder.check(settings)
        if not folder.has_settings:
            folder.path.mkdir(parents=True, exist_ok=True)
            write_object(folder._settings, settings)
        return folder

    @property
    def has_settings(self) -> bool:
        """Whether an estimate was begun in the folder."""
        return self._settings.is_file()

    def remove(self) -> None:
        """Remove the folder of an estimate that has no rollouts."""
        shutil.rmtree(self.path)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raises RunError where the folder holds an estimate of other settings, or something else."""
        if self._settings.is_file():
            saved = self.settings
            names = dict.fromkeys([*saved, *settings])
            changed = [name for name in names if saved.get(name) != settings.get(name)]
            if changed:
                differ = ", ".join(
                    f"{name} was {abbreviated(saved.get(name))!r}, is {abbreviated(settings.get(name))!r}"
                    for name in changed
                )
                raise RunError(
                    f"{self.path} holds another estimate ({differ}): choose another folder with --out"
                )
        elif self.path.exists() and not (self.path.is_dir() and is_unused(self.path)):
            raise RunError(f"{self.path} exists and is not an empty folder: choose another one with --out")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> EstimateFolder:
        """The estimate in an existing folder."""
        folder = cls(Path(path))
        if not folder._settings.is_file():
            raise RunError(f"{path} holds no estimate: make one with `curro estimate DATA --out {path}`")
        return folder

    @property
    def settings(self) -> dict[str, Any]:
        """What the estimate was started with."""
        return read_object(self._settings)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a finished prompt, in the columns above."""
        append_rows(self._groups, [{name: row[name] for name in COLUMNS}])

    def groups(self) -> dict[int, dict[str, Any]]:
        """The finished prompts by their number, in the order of the data set; null comes back as NaN.

        The latest row of a prompt counts.
        """
        latest = {}
        for row in read_rows(self._groups, COLUMNS):
            check_whole(row, WHOLE, f"a line of {self._groups}")
            latest[row["prompt"]] = row
        return dict(sorted(latest.items()))

    def write_table(self) -> pa.Table:
        """Write and return the table of all prompts, by their number."""
        import pyarrow.parquet as pq

        rows = list(self.groups().values())
        try:
            table = pa.table({name: [row[name] for row in rows] for name in COLUMNS}, schema=SCHEMA)
        except (pa.ArrowException, OverflowError) as error:
            raise RunError(f"{self._groups} is damaged: {error}") from error
        with replacing(self._table) as part:
            pq.write_table(table, part)
        return table

    def table(self) -> pa.Table:
        """The table of all prompts."""
        if not self._table.is_file():
            raise RunError(
                f"the estimate in {self.path} is not complete: type its `curro estimate` again to go on"
            )
        try:
            return read_parquet(self._table).select(COLUMNS).cast(SCHEMA)
        except (pa.ArrowException, KeyError) as error:
            raise RunError(f"{self._table} is damaged: {error}") from error

    def pass_rates(self) -> np.ndarray:
        """The pass rate of each prompt, float64 (N,); NaN if no completion was scored.

        Raises:
            RunError: the rewards are not from 0 to 1, or prompts are missing from the table.
        """
        table = self.table()
        if table["prompt"].to_pylist() != list(range(self.settings.get("prompts", len(table)))):
            raise RunError(
                f"{self._table} has not every prompt in its order: type the same `curro estimate` again, "
                f"which makes a new one from {self._groups.name}"
            )
        rates_N, variances_N = (table[name].to_numpy() for name in ("mean", "variance"))
        if not are_pass_rates(rates_N, variances_N):
            raise RunError(
                f"the rewards of the estimate in {self.path} are not from 0 to 1, so there are no pass "
                "rates: estimate again with a reward from 0 to 1"
            )
        return rates_N


def are_pass_rates(means_N: np.ndarray, variances_N: np.ndarray) -> bool:
    """Whether rewards with these means and variances can be from 0 to 1.

    The variance of such rewards is at most mean (1 - mean). That of -1 and 1 is more wherever both occur,
    also where all means are above 0.
    """
    return not (variances_N > means_N * (1 - means_N) + 1e-6).any()


BANDS = ((0.0, 1.0), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.4, 0.6))
"""Open at both ends: table 1 of "Online Difficulty Filtering for Reasoning Oriented RL", balanced."""


def shares(rates: np.ndarray) -> list[tuple[str, float]]:
    """The share of prompts never solved, in each tenth between, and always solved.

    Args:
        rates: pass rates (N,) in [0, 1]; NaN where a prompt has none, and is in no share.
    """
    measured = rates[~np.isnan(rates)]
    never, always = between(measured, 0, 0, "both"), between(measured, 1, 1, "both")
    tenth = np.clip(np.floor(measured * 10 + 1e-9), 0, 9)
    counts = [("0", never.sum())]
    counts += [
        (f"0.{i} to {'1' if i == 9 else f'0.{i + 1}'}", ((tenth == i) & ~never & ~always).sum())
        for i in range(10)
    ]
    counts.append(("1", always.sum()))
    return [(name, float(count) / max(1, len(measured))) for name, count in counts]


def bands(rates: np.ndarray, k: int) -> list[tuple[float, float, float, float]]:
    """For each of `BANDS`: low, high, the share of prompts inside, and rollouts an admitted group."""
    measured = rates[~np.isnan(rates)]
    shares_inside = [float(between(measured, low, high, "neither").mean()) for low, high in BANDS]
    return [
        (*band, share, k / share if share else np.inf)
        for band, share in zip(BANDS, shares_inside, strict=True)
    ]


def render(means: np.ndarray, variances: np.ndarray, k: int) -> RenderableType:
    """The summary for the terminal; without the bands where rewards are not from 0 to 1.

    Args:
        means, variances: of each prompt's rewards (N,); NaN if none was scored.
    """
    measured = means[~np.isnan(means)]
    if not len(measured):
        return f"none of the completions of {len(means)} prompts was scored"
    title = f"{len(measured)} prompts, {k} rollouts each: mean reward {measured.mean():.3f}"
    if not are_pass_rates(means, variances):
        return f"{title}; the rewards are not from 0 to 1, so there are no pass rates"
    rows = shares(means)
    widest = max(share for _, share in rows)
    histogram = Table("pass rate", "share", "", title=title, title_justify="left", box=None)
    for name, share in rows:
        word = {"0": "0: never", "1": "1: always"}.get(name, name)
        histogram.add_row(word, f"{share:.3f}", "█" * round(40 * share / widest))
    costs = Table("band", "share inside", "rollouts an admitted group", box=None)
    for low, high, share, cost in bands(means, k):
        costs.add_row(f"({low:g}, {high:g})", f"{share:.3f}", f"{cost:.1f}" if np.isfinite(cost) else "-")
    return Group(histogram, "", costs)

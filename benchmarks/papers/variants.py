"""What the ablations share: train variants one after the other, a row for each run, tables from the rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from curro.runs.folder import RunFolder
from curro.runs.report.compare import METRIC, crossing, isotonic
from curro.training.plan import Plan, plan
from curro.training.run import train
from curro.training.settings import TrainSettings

Row = dict[str, Any]
"""A run's `variant`, `seed`, and in `series` by metric the steps and the values."""


@dataclass(frozen=True)
class Variant:
    """A curriculum, and the settings of `curro train` in which it differs from the others.

    Attributes:
        name: what rows call it; by default the curriculum and its settings.
    """

    curriculum: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def key(self) -> str:
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return self.name or " ".join([self.curriculum, *settings])


Tables = dict[str, dict[str, Variant]]
"""By title, the variants by their labels; the first of each is what the others are measured against."""


@dataclass(frozen=True)
class Steps(TrainSettings):
    """Settings of a run that ends after so many training steps, whatever they cost in rollouts."""

    limit_steps: int = 0

    @property
    def steps(self) -> int:
        return self.limit_steps


class Results:
    """The rows of an ablation's runs in a JSONL file, appended as the runs end.

    Args:
        path: of the file.
        folder: of the run in progress, and with `keep` of all runs.
        columns: what the rows have in common, such as a pool; other rows of the file are passed over.
    """

    def __init__(self, path: Path, folder: Path, **columns: Any) -> None:
        self.path, self.folder, self.columns = path, folder, columns

    def rows(self) -> list[Row]:
        if not self.path.exists():
            return []
        rows = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [row for row in rows if self.columns.items() <= row.items()]

    def of(self, variant: Variant) -> list[Row]:
        """The rows of a variant's seeds."""
        return [row for row in self.rows() if row["variant"] == variant.key]

    def run(
        self,
        variants: Iterable[Variant],
        seeds: int,
        common: Mapping[str, Any],
        *,
        series: Sequence[str] = (),
        steps: int | None = None,
        keep: bool = False,
        first_seed: int = 0,
        more: Callable[[Plan, RunFolder], Mapping[str, Any]] = lambda prepared, folder: {},
        on_step: Callable[[Plan, dict[str, Any]], None] = lambda prepared, line: None,
    ) -> None:
        """Train what has no row yet, all variants with one seed before the next seed.

        Args:
            common: settings of `curro train` for all variants.
            series: metrics of the rows beside the accuracy.
            steps: training steps of a run; None: as many as its budget of rollouts pays for.
            keep: leave the run folders.
            more: further columns of a row, from the finished run.
            on_step: hears the metrics of every step, beginning with step 0, which is before training.
        """
        distinct = {variant.key: variant for variant in variants}
        for seed in range(first_seed, first_seed + seeds):
            for variant in distinct.values():
                if any(row["seed"] == seed for row in self.of(variant)):
                    continue
                print(", ".join([*map(str, self.columns.values()), variant.key, f"seed {seed}"]), flush=True)
                own = {**variant.settings, "curriculum": variant.curriculum, "seed": seed}
                settings = TrainSettings(**{**common, **own})
                name = f"{_slug(variant.key)}-seed{seed}"
                folder, row = self._train(settings, steps, name, series, more, on_step)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a") as file:
                    file.write(
                        json.dumps({"variant": variant.key, "seed": seed, **self.columns, **row}) + "\n"
                    )
                if not keep:
                    shutil.rmtree(folder.path)

    def _train(
        self,
        settings: TrainSettings,
        steps: int | None,
        name: str,
        series: Sequence[str],
        more: Callable[[Plan, RunFolder], Mapping[str, Any]],
        on_step: Callable[[Plan, dict[str, Any]], None],
    ) -> tuple[RunFolder, Row]:
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)  # of a run that was cut off
        prepared = plan(settings)
        if steps is not None:
            known = Steps(**{**asdict(prepared.settings), "limit_steps": steps})
            prepared = replace(prepared, settings=known)
        folder = RunFolder.create(path, {"settings": asdict(prepared.settings)})
        train(prepared, folder, on_step=partial(on_step, prepared))
        if not folder.model.is_dir():  # it was asked to stop; half a run must not become a row
            raise SystemExit(f"{name} was stopped before its end: repeat the command to run it again")
        lines = folder.metrics()
        curves: dict[str, list[list[float]]] = {}
        for metric in ("rollouts", METRIC, *series):
            evaluated = [line for line in lines if METRIC in line] if metric == "rollouts" else lines
            values = [(line["step"], line.get(metric)) for line in evaluated]
            points = [(step, value) for step, value in values if value is not None and not isnan(value)]
            curves[metric] = [[step for step, _ in points], [round(value, 5) for _, value in points]]
        return folder, {"series": curves, **more(prepared, folder)}


def _slug(text: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in text)


@dataclass(frozen=True)
class Summary:
    """A variant over its seeds: the curve of mean accuracy, and the accuracies at its end."""

    steps: np.ndarray
    rollouts: np.ndarray
    mean: np.ndarray
    finals: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Summary:
        steps = np.array(rows[0]["series"][METRIC][0])
        values = [np.interp(steps, *row["series"][METRIC]) for row in rows]
        rollouts = [np.interp(steps, *row["series"]["rollouts"]) for row in rows]
        finals = np.array([row["series"][METRIC][1][-1] for row in rows])
        return cls(steps, np.mean(rollouts, axis=0), np.mean(values, axis=0), finals)

    @property
    def interval(self) -> str:
        """The mean and, from two seeds, Student's 95% interval."""
        return mean_interval(self.finals)

    def rollouts_to(self, level: float) -> float | None:
        return crossing(self.rollouts, isotonic(self.mean), level)


def mean_interval(values: np.ndarray) -> str:
    """Mean and, from two values, Student's 95% interval of it."""
    if len(values) < 2:
        return f"{values.mean():.3f}"
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.3f} ± {student.ppf(0.975, len(values) - 1) * error:.3f}"


def report(tables: Tables, results: Results) -> str:
    """The tables as Markdown, of the variants with a run; a table with fewer than two of them is left out."""
    parts, missing = [], set()
    for title, variants in tables.items():
        rows_of = {label: results.of(variant) for label, variant in variants.items()}
        missing |= {variants[label].key for label, rows in rows_of.items() if not rows}
        summaries = {label: Summary.of(rows) for label, rows in rows_of.items() if rows}
        if len(summaries) < 2:
            continue
        first = next(iter(summaries.values()))
        level = float(isotonic(first.mean)[-1])
        lines = []
        for label, summary in summaries.items():
            at = summary.rollouts_to(level)
            reached = "not reached" if at is None else f"{at:,.0f}"
            gain = f"{summary.finals.mean() - first.finals.mean():+.3f}"
            key = f"`{variants[label].key}`"
            cells = [label, key, summary.interval, gain, reached, str(len(summary.finals))]
            lines.append(f"| {' | '.join(cells)} |")
        parts.append(
            f"## {title}\n\n"
            "| | curriculum | held-out pass@1 | against the first | rollouts to its level | seeds |\n"
            "|---|---|--:|--:|--:|--:|\n" + "\n".join(lines)
        )
    return "\n\n".join([*parts, *not_run(missing)]) + "\n"


def not_run(missing: Collection[str]) -> list[str]:
    """A sentence that says how many variants have no run yet; none where all have one."""
    if not missing:
        return []
    return [f"{len(missing)} variant{'s have' if len(missing) > 1 else ' has'} not been run yet."]

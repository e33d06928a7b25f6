"""Compare several curricula on one task: what each reaches, and for how many rollouts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from curro.core.errors import RunError
from curro.core.intervals import Interval, bootstrap_interval
from curro.core.text import readable
from curro.runs.folder import RunFolder
from curro.runs.reader import History, read_history

METRIC = "eval/pass@1"

RunsByName = Mapping[str, Sequence[RunFolder | str | os.PathLike[str]]]


@dataclass(frozen=True)
class Comparison:
    """A curriculum of a comparison; numbers are means over its seeds.

    Attributes:
        name: the curriculum's.
        seeds: the number of its runs.
        final: held-out pass@1 at the last evaluation.
        error: the standard error of that mean; None with one seed.
        rollouts: spent on training by one run, including judgments.
        to_level: rollouts to reach the level; None where it was not reached.
        speedup: how many times fewer rollouts than the first curriculum needed for the level; None where it
            was not reached, or where the first curriculum had it from the start. With fewer than `FEWEST`
            seeds it is mostly noise, and is not shown.
        interval: the ends of the 95% interval of `speedup` over seeds: 0 where seeds do not reach the level,
            infinite where they have it from the start. None for the first curriculum and with fewer than
            `FEWEST` seeds; known also where the level was not reached.
        seconds: of training.
    """

    name: str
    seeds: int
    final: float
    error: float | None
    rollouts: float
    to_level: float | None
    speedup: float | None
    interval: tuple[float, float] | None
    seconds: float


@dataclass(frozen=True)
class Curve:
    """Evaluations of several seeds on common abscissas: x (E,), values (R, E) for R seeds."""

    x: np.ndarray
    values: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.values.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean, 0 with one seed."""
        if len(self.values) < 2:
            return np.zeros(len(self.x))
        return self.values.std(axis=0, ddof=1) / np.sqrt(len(self.values))


def comparison_table(runs: RunsByName) -> list[Comparison]:
    """Summarise each curriculum in a row, in the order given.

    The level is what the first curriculum finally holds. Single evaluations are noisy, and the first one
    above a level comes too early by chance. So curves are averaged over seeds and fitted by the nearest
    non-decreasing curve in least squares (isotonic regression, which has no constant to choose). The level
    is the end of the first curriculum's fit; a curriculum reaches it where its own fit does, with straight
    lines between evaluations.

    Raises:
        RunError: no runs, a curriculum without runs, or a run that was never evaluated.
    """
    histories = read_runs(runs)
    curves = {name: pool(name, seeds, METRIC, "rollouts") for name, seeds in histories.items()}
    fits = {name: isotonic(curve.mean) for name, curve in curves.items()}
    base, level = next(iter(curves.values())), float(next(iter(fits.values()))[-1])
    rows: list[Comparison] = []
    for name, seeds in histories.items():
        finals = np.array([history.last(METRIC) for history in seeds])
        reached = crossing(curves[name].x, fits[name], level)
        first = rows[0].to_level if rows else reached
        rows.append(
            Comparison(
                name=name,
                seeds=len(seeds),
                final=float(finals.mean()),
                error=float(finals.std(ddof=1) / np.sqrt(len(finals))) if len(finals) > 1 else None,
                rollouts=float(np.mean([history.last("rollouts") for history in seeds])),
                to_level=reached,
                speedup=first / reached if first and reached else None,
                interval=_interval(base, curves[name]) if rows else None,
                seconds=float(np.mean([history.last("seconds") for history in seeds])),
            )
        )
    return rows


RESAMPLES = 1_000
"""How often the seeds are drawn again for an interval."""
FEWEST = 5
"""Seeds from which on factors and intervals are shown: with fewer they miss the truth too often."""


def _interval(base: Curve, own: Curve) -> Interval | None:
    """Bootstrap the 95% interval of a curriculum's factor in rollouts; None with fewer than `FEWEST` seeds.

    The seeds of the first curriculum and of this one are drawn again with replacement, and the level and the
    rollouts to it are computed anew. Draws in which the first curriculum has the level from the start do not
    count.
    """
    fewest = min(len(base.values), len(own.values))
    if fewest < FEWEST:
        return None
    rng = np.random.default_rng(0)
    factors = []
    for _ in range(RESAMPLES):
        drawn = [
            curve.values[rng.integers(len(curve.values), size=len(curve.values))].mean(axis=0)
            for curve in (base, own)
        ]
        fit = isotonic(drawn[0])
        start = crossing(base.x, fit, fit[-1])
        end = crossing(own.x, isotonic(drawn[1]), fit[-1])
        if start:
            factors.append(0.0 if end is None else start / end if end else np.inf)
    return bootstrap_interval(np.array(factors), fewest, fewest - 1) if factors else None


def read_runs(runs: RunsByName) -> dict[str, list[History]]:
    """Read all runs, with judgments counted as rollouts; refuse a run without evaluations."""
    if not runs:
        raise RunError("there is nothing to compare: name at least one curriculum with its runs")
    histories = {}
    for name, folders in runs.items():
        if not folders:
            raise RunError(f"there is no run of {name!r} to compare")
        histories[name] = [with_judgments(read_history(folder)) for folder in folders]
        for history, folder in zip(histories[name], folders, strict=True):
            if not len(history.series(METRIC, "rollouts")[1]):
                where = folder.path if isinstance(folder, RunFolder) else folder
                raise RunError(f"the run in {where} has no held-out {METRIC}: it cannot be compared")
    return histories


def with_judgments(history: History) -> History:
    """Count judgments (METIS) as rollouts."""
    judgments_S = np.nan_to_num(history.metrics.get("judge/judgments", np.zeros(1)))
    if not judgments_S.any():
        return history
    # the line of an evaluation alone does not repeat the judgments so far
    rollouts_S = history.metrics["rollouts"] + np.maximum.accumulate(judgments_S)
    return replace(history, metrics={**history.metrics, "rollouts": rollouts_S})


def pool(
    name: str,
    seeds: Iterable[History],
    metric: str,
    against: str,
    smoothed: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> Curve:
    """Read the curves of several seeds off at all abscissas that any has, within what all cover.

    Args:
        smoothed: applied to each seed's values first.
    """
    curves = [(x, smoothed(values)) for x, values in (history.series(metric, against) for history in seeds)]
    start, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    if start > end:
        raise RunError(
            f"the seeds of {name!r} have no stretch of training in common: compare runs of one budget"
        )
    x = np.unique(np.concatenate([x for x, _ in curves]))
    x = x[(x >= start) & (x <= end)]
    return Curve(x, np.array([np.interp(x, *curve) for curve in curves]))


def isotonic(y: np.ndarray) -> np.ndarray:
    """Fit the non-decreasing sequence nearest to y in least squares."""
    from scipy.optimize import isotonic_regression

    return isotonic_regression(y).x


def crossing(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """Find where a non-decreasing curve of straight lines first reaches the level; None if it never does."""
    at = int(np.searchsorted(y, level - 1e-12))
    if at == len(y):
        return None
    if at == 0:
        return float(x[0])
    return float(x[at - 1] + (x[at] - x[at - 1]) * min((level - y[at - 1]) / (y[at] - y[at - 1]), 1.0))


def cells(row: Comparison, rows: Sequence[Comparison]) -> tuple[str, ...]:
    """Write one of these rows under `columns`; factors are shown with their intervals or not at all."""
    error = "" if row.error is None else f" ±{row.error:.3f}"
    return (
        f"{row.final:.3f}{error}",
        f"{row.rollouts:,.0f}",
        "not reached" if row.to_level is None else f"{row.to_level:,.0f}",
        *([_factor(row.speedup, row.interval)] if _has_intervals(rows) else []),
        f"{row.seconds:,.0f}",
        f"{row.seeds}",
    )


def _factor(speedup: float | None, interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{'-' if speedup is None else f'{speedup:.2f}x'}\n({interval[0]:.2f}, {interval[1]:.2f})"


def remarks(rows: Sequence[Comparison]) -> list[str]:
    """Say what a reader of `cells` has to know of the level, the seeds and the budget."""
    fewest, most = min(row.seeds for row in rows), max(row.seeds for row in rows)
    said = [
        f"The level is what {readable(rows[0].name, 40)} finally holds: the end of the non-decreasing curve "
        "nearest to its evaluations. Rollouts of evaluations are not counted."
    ]
    if most > 1:
        said.append("Numbers and lines are means over seeds; ± and bands are one standard error.")
    if fewest < FEWEST:
        seeds = "One seed" if most == 1 else "So few seeds"
        said.append(
            f"{seeds}: differences between runs of one method are often as large as these. Take --seeds "
            f"{FEWEST} or more: from there on, the table has factors with intervals."
        )
    if _has_intervals(rows):
        said.append(
            "In brackets: 95% intervals over seeds, for the factor; an end of 0 says that with some draws "
            "of the seeds the level is not reached."
        )
    spent = [row.rollouts for row in rows]
    if max(spent) > 1.05 * min(spent):
        said.append(
            "Held-out pass@1 is that of the end, and the runs ended after different numbers of rollouts."
        )
    return said


def columns(rows: Sequence[Comparison]) -> tuple[str, ...]:
    """Name the columns of `cells`."""
    level = f"rollouts to {readable(rows[0].name, 40)}'s level"
    factor = ["fewer"] if _has_intervals(rows) else []
    return ("held-out pass@1", "rollouts", level, *factor, "seconds", "seeds")


def _has_intervals(rows: Sequence[Comparison]) -> bool:
    return any(row.interval for row in rows)


def render_comparison(rows: Sequence[Comparison]) -> Table:
    """Lay the comparison out for a terminal."""
    least, most = min(row.seeds for row in rows), max(row.seeds for row in rows)
    seeds = "1 seed" if most == 1 else f"{most} seeds" if least == most else f"{least} to {most} seeds"
    table = Table(title=f"Held-out accuracy, {seeds}", box=SIMPLE_HEAD, padding=0)
    table.caption_justify = "left"
    table.caption = Text(" ".join(remarks(rows)))
    table.add_column("curriculum", overflow="fold", min_width=len("curriculum"))
    for title in columns(rows)[:-1]:  # a terminal of 80 characters has no room for the seeds
        table.add_column(Text(title), justify="right")
    for row in rows:
        table.add_row(Text(readable(row.name, 120)), *cells(row, rows)[:-1])
    return table


_NO_DIFFERENCE = {
    *("curriculum", "allocation", "advantage", "admission", "seed", "threads", "device_batch", "log"),
    *("eval_every", "save_every", "keep_best", "keep_rollouts", "keep_megabytes"),
    *("share_prompts", "sandbox", "reward_workers", "reward_seconds", "reward_memory"),
}
"""Settings in which the runs of one name may differ, or which are in its name anyway."""


def _settings(history: History) -> dict[str, Any]:
    """What `curro train` was told of a run's task, its budget and its updates; empty for other trainers."""
    settings = history.config.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    return {name: value for name, value in settings.items() if name not in _NO_DIFFERENCE}


def changed_data(folders: Iterable[RunFolder]) -> list[str]:
    """A sentence for each run whose data was another than that of the first run with data of this name."""
    first: dict[str, tuple[RunFolder, bytes]] = {}
    sentences = []
    for folder in folders:
        settings = folder.config.get("settings")
        try:
            fingerprint = (folder.table().schema.metadata or {}).get(b"curro.fingerprint")
        except RunError:  # there is none yet, or it is damaged
            continue
        if isinstance(settings, Mapping) and fingerprint is not None:
            named = str([settings.get(name) for name in _DATA])
            other, was = first.setdefault(named, (folder, fingerprint))
            if was != fingerprint:
                sentences.append(
                    f"{settings.get('data')} was changed between the runs in {other.path} and {folder.path}, "
                    "which do not compare: train one of them again"
                )
    return sentences


_DATA = ("data", "limit", "prompt_column", "answer_column")
"""Settings that name a run's data."""


def by_curriculum(folders: Iterable[RunFolder]) -> dict[str, list[RunFolder]]:
    """Group runs that differ in their seed alone, under what chose their prompts; uniform sampling first.

    Other settings in which runs differ are in their names: `frontier learning_rate=1e-05`.
    """
    histories = {folder: read_history(folder) for folder in folders}
    settings = {folder: _settings(history) for folder, history in histories.items()}
    given = [own for own in settings.values() if own]
    names = dict.fromkeys(name for own in given for name in own)
    differ = [name for name in names if len({str(own.get(name)) for own in given}) > 1]
    runs: dict[str, list[RunFolder]] = {}
    for folder, history in histories.items():
        others = [f"{name}={settings[folder].get(name)}" for name in differ if settings[folder]]
        runs.setdefault(" ".join([history.curriculum, *others]), []).append(folder)
    return dict(sorted(runs.items(), key=lambda item: not item[0].startswith("uniform")))

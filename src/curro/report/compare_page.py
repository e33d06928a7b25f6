"""The page of several curricula."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from curro.report.charts import Chart, Mark, Series, trailing_mean
from curro.report.compare import (
    METRIC,
    Curve,
    Runs,
    cells,
    columns,
    comparison_table,
    crossing,
    isotonic,
    pool,
    read_runs,
)
from curro.report.drawing import picture
from curro.report.figures import STEP
from curro.report.history import History
from curro.report.html import write_page
from curro.report.rankings import readable


def write_comparison(runs: Runs, out: str | os.PathLike[str]) -> Path:
    """Write one page for several curricula, like `write_report`'s.

    Args:
        runs: by the curriculum's name, its runs, one a seed; the first is what others are measured against.
        out: the file.

    Raises:
        RunError: as `comparison_table`.
    """
    rows = comparison_table(runs)
    histories = read_runs(runs)
    return write_page(
        "comparison.html",
        Path(out),
        title=f"curro: {len(rows)} curricula",
        names=[row.name for row in rows],
        columns=columns(rows),
        cells=[cells(row) for row in rows],
        several=max(row.seeds for row in rows) > 1,
        pictures_found=[picture(chart) for chart in comparison_charts(histories)],
    )


def comparison_charts(histories: dict[str, list[History]]) -> list[Chart]:
    """The curves of several curricula, of which the first is what the others are measured against."""
    found = [
        _chart(histories, METRIC, "rollouts", "Held-out pass@1 against rollouts"),
        _chart(histories, METRIC, "step", "Held-out pass@1 against updates"),
        _chart(histories, "signal_share", "rollouts", "Share of groups with signal", smooth=True),
        _chart(histories, "reward", "rollouts", "Mean reward of the training rollouts", smooth=True),
    ]
    return [chart for chart in found if chart]


def _chart(
    histories: dict[str, list[History]], metric: str, against: str, title: str, *, smooth: bool = False
) -> Chart | None:
    """The means over seeds of a metric with a band of one standard error to both sides."""
    curves = {
        name: pool(name, seeds, metric, against)
        for name, seeds in histories.items()
        if all(len(history.series(metric)[1]) for history in seeds)
    }
    if not curves:
        return None
    series = []
    for i, (name, curve) in enumerate(curves.items()):
        mean, error = (trailing_mean(values) if smooth else values for values in (curve.mean, curve.error))
        band = (mean - error, mean + error) if len(histories[name]) > 1 else (None, None)
        series.append(Series(name, mean, curve.x, i % 7, "line" if smooth else "points", *band))
    marks = [distance(curves)] if metric == METRIC and against == "rollouts" else []
    captions = ["Mean of the last ten steps."] if smooth else [mark.caption for mark in marks if mark]
    return Chart(
        f"compare-{metric.split('/')[0]}-{against}",
        title,
        "lines",
        series,
        "training rollouts" if against == "rollouts" else STEP,
        caption="".join(captions),
        marks=[mark.mark for mark in marks if mark],
    )


@dataclass(frozen=True)
class Distance:
    """How much sooner a curve is at a level, as a mark in the picture and as a sentence."""

    mark: Mark
    caption: str


def distance(curves: Mapping[str, Curve]) -> Distance | None:
    """From the first curve's fit to the best other's, at the level that the first finally holds.

    None where no other curve gets there, or the first had the level from the start.
    """
    fits = {name: isotonic(curve.mean) for name, curve in curves.items()}
    first, *others = curves
    level = float(fits[first][-1])
    start = crossing(curves[first].x, fits[first], level)
    ends = {name: crossing(curves[name].x, fits[name], level) for name in others}
    reached = {name: end for name, end in ends.items() if end is not None}
    if not reached or not start:
        return None
    best = min(reached, key=lambda name: reached[name])
    end, name = reached[best], readable(best, 40)
    if end >= start:
        return Distance(
            Mark(start, end, level, f"{end - start:,.0f} more"),
            f"{name} needs {end - start:,.0f} rollouts more than {readable(first, 40)} to its final level.",
        )
    return Distance(
        Mark(start, end, level, f"{start - end:,.0f} fewer"),
        f"{name} is at {readable(first, 40)}'s final level {start - end:,.0f} rollouts sooner: "
        f"{1 - end / start:.0%} fewer.",
    )

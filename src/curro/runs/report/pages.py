"""The page of one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from curro.core.files import replacing
from curro.core.text import readable
from curro.rollout.evaluation_results import Sheet
from curro.runs.folder import RunFolder
from curro.runs.reader import History, read_history
from curro.runs.report.advice import advise, headlines, verdict
from curro.runs.report.charts import Chart, Mark, Series, trailing_mean
from curro.runs.report.compare import (
    METRIC,
    Curve,
    RunsByName,
    cells,
    columns,
    comparison_table,
    crossing,
    isotonic,
    pool,
    read_runs,
    remarks,
)
from curro.runs.report.drawing import picture, style_sheet
from curro.runs.report.figures import STEP
from curro.runs.report.prompts import rankings
from curro.runs.report.sections import sections
from curro.runs.report.worth import Worth

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("curro.runs.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["readable"] = readable
_ENVIRONMENT.globals["style_sheet"] = style_sheet


def write_page(template: str, path: Path, **content: Any) -> Path:
    """Render a template to a file, making its folder; returns the path."""
    page = _ENVIRONMENT.get_template(template).render(**content)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


_ROWS = 10


def write_report(run: RunFolder | str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write a run's page: one HTML file that loads nothing and runs nothing.

    Args:
        run: the run, or its folder; it may still be training.
        out: where to; `report.html` in the run's folder by default.

    Raises:
        RunError: no run, or one without a finished training step.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    history = read_history(folder)
    return write_page(
        "report.html",
        folder.path / "report.html" if out is None else Path(out),
        history=history,
        title=f"curro: {readable(history.name, 60)}",
        headlines=headlines(history),
        verdict=verdict(history),
        worth=Worth.of(history),
        advice=advise(history),
        sections=[(title, [picture(chart) for chart in charts]) for title, charts in sections(history)],
        rankings=rankings(history.groups, _ROWS),
        config=list(_flat(history.config)),
    )


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows: `curriculum.seed`, `3`."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)


def write_evaluation(path: Path, sheets: Sequence[Sheet], settings: Sequence[tuple[str, str]]) -> Path:
    """Write the tables and how they were made; everything is escaped."""
    title = "curro: evaluation"
    return write_page("evaluation.html", path, title=title, sheets=sheets, settings=settings)


def write_comparison(runs: RunsByName, out: str | os.PathLike[str]) -> Path:
    """Write one page for several curricula, like `write_report`'s.

    Args:
        runs: by the curriculum's name, its runs, one a seed; the first is what others are measured against.
        out: the file.
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
        remarks=remarks(rows),
        pictures_found=[picture(chart) for chart in comparison_charts(histories)],
    )


def comparison_charts(histories: dict[str, list[History]]) -> list[Chart]:
    """The curves of several curricula, of which the first is what the others are measured against."""
    charts = [
        _chart(histories, METRIC, "rollouts", "Held-out pass@1 against rollouts"),
        _chart(histories, METRIC, "step", "Held-out pass@1 against updates"),
        _chart(histories, "signal_share", "rollouts", "Share of groups with signal", smooth=True),
        _chart(histories, "reward", "rollouts", "Mean reward of the training rollouts", smooth=True),
    ]
    return [chart for chart in charts if chart]


def _chart(
    histories: dict[str, list[History]], metric: str, against: str, title: str, *, smooth: bool = False
) -> Chart | None:
    """The means over seeds of a metric with a band of one standard error to both sides.

    Args:
        smooth: take for each value of a seed the mean of its last ten steps.
    """
    curves = {
        name: pool(name, seeds, metric, against, smoothed=trailing_mean if smooth else None)
        for name, seeds in histories.items()
        if all(len(history.series(metric, against)[1]) for history in seeds)
    }
    if not curves:
        return None
    series = []
    for i, (name, curve) in enumerate(curves.items()):
        mean, error = curve.mean, curve.error
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
    several = max(len(curve.values) for curve in curves.values()) > 1
    share = "; the table has the interval over seeds" if several else f": {1 - end / start:.0%} fewer"
    return Distance(
        Mark(start, end, level, f"{start - end:,.0f} fewer"),
        f"{name} is at {readable(first, 40)}'s final level {start - end:,.0f} rollouts sooner{share}.",
    )

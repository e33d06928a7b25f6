"""Render the pages: of one run, still or live, of a comparison of runs, and of tables.

Everything that a run holds is escaped by Jinja2, and control characters are spelt out; the figures' markup
alone is trusted, whose texts matplotlib escapes. A page loads nothing and, but for the live one's refresh,
runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from curro.core.files import replacing
from curro.core.text import printable, readable
from curro.rollout.evaluation_results import Sheet
from curro.runs.folder import RunFolder
from curro.runs.reader import History, read_history
from curro.runs.report.advice import advise, headlines, verdict
from curro.runs.report.compare import (
    METRIC,
    RunsByName,
    cells,
    columns,
    comparison_table,
    pool,
    read_runs,
    remarks,
)  # fmt: skip
from curro.runs.report.figures import Picture, lines, run_figures, trailing_mean
from curro.runs.report.prompts import PromptHistory, kept_rollouts, rankings, spelt_out

ROWS = 8
"""Prompts of each ranking."""

SHOWN_VISITS, SHOWN_GROUPS, SHOWN_TEXT = 12, 2, 2000
"""A prompt's visits and groups of kept rollouts on the page, and the characters of each text."""


def _spelt_out(value: Any) -> Any:
    """What a page shows of a text: a name that nothing cuts may steer a terminal, too."""
    return "\n".join(map(printable, value.split("\n"))) if type(value) is str else value


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("curro.runs.report"),
    autoescape=True,
    finalize=_spelt_out,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"readable": readable, "spelt_out": lambda text: spelt_out(text, SHOWN_TEXT)}


@dataclass(frozen=True)
class Live:
    """What a page needs to follow runs.

    Attributes:
        version: changes when there is something new to show.
        note: what is still being read, or cannot be.
        overview: whether there is a page of several runs to go back to.
    """

    version: str
    note: str = ""
    overview: bool = False


def run_page(folder: RunFolder, history: History, live: Live | None = None) -> str:
    """Render the page of one run, as far as it is."""
    shown = rankings(history.groups, ROWS)
    numbers = {prompt.number for ranking in shown for prompt in ranking.prompts}
    kept = kept_rollouts(folder.rollouts_file, numbers)
    return _ENVIRONMENT.get_template("run.html").render(
        title=f"curro: {readable(history.name, 60)}",
        live=live,
        history=history,
        headlines=headlines(history),
        verdict=verdict(history),
        advice=advise(history),
        pictures=run_figures(history),
        rankings=shown,
        prompts={number: PromptHistory.of(history.groups, number, kept) for number in numbers},
        visits=SHOWN_VISITS,
        kept_groups=SHOWN_GROUPS,
        config=list(_flat(history.config)),
    )


def tables_page(
    title: str,
    sheet: Sheet | None,
    notes: Sequence[str] = (),
    pictures: Sequence[Picture] = (),
    links: Mapping[str, str] | None = None,
    live: Live | None = None,
) -> str:
    """Render a table, sentences and figures.

    Args:
        links: addresses for the texts of the first column.
    """
    return _ENVIRONMENT.get_template("tables.html").render(
        title=title, sheet=sheet, notes=notes, pictures=pictures, links=links or {}, live=live
    )


def write_page(path: Path, page: str) -> Path:
    """Write a page to a file, making its folder; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def write_report(run: RunFolder | str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write a run's page to a file.

    Args:
        run: may still be training.
        out: where to; `report.html` in the run's folder by default.

    Raises:
        RunError: no run, or one without a finished training step.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    path = folder.path / "report.html" if out is None else Path(out)
    return write_page(path, run_page(folder, read_history(folder)))


def write_comparison(runs: RunsByName, out: str | os.PathLike[str]) -> Path:
    """Write one page for several curricula.

    Args:
        runs: by the curriculum's name, its runs, one a seed; the first is what others are measured against.
        out: the file.
    """
    rows = comparison_table(runs)
    table = [(readable(row.name, 60), *cells(row, rows)) for row in rows]
    sheet = Sheet("", ("curriculum", *columns(rows)), tuple(table))
    figures = comparison_figures(read_runs(runs))
    return write_page(
        Path(out), tables_page(f"{len(rows)} curricula on one task", sheet, remarks(rows), figures)
    )


def comparison_figures(histories: Mapping[str, Sequence[History]]) -> list[Picture]:
    """Draw held-out success and the share of groups with a signal against rollouts.

    Args:
        histories: by name, the runs whose mean is drawn, with a band of one standard error.
    """
    pictures = []
    for metric, title in ((METRIC, "Held-out pass@1"), ("signal_share", "Share of groups with a signal")):
        is_smooth, curves = metric != METRIC, {}
        for name, seeds in histories.items():
            if all(len(history.series(metric, "rollouts")[1]) for history in seeds):
                curve = pool(name, seeds, metric, "rollouts", trailing_mean if is_smooth else np.asarray)
                curves[name] = (curve.x, curve.mean, curve.error)[: 3 if len(seeds) > 1 else 2]
        caption = "Mean of ten steps." if is_smooth else ""
        label = "training rollouts"
        pictures.append(
            lines(f"compare-{metric}", title, curves, caption, x_label=label, marked=not is_smooth)
        )
    return [picture for picture in pictures if picture is not None]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows: `curriculum.seed`, `3`."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)

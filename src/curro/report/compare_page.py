"""The page of several curricula."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes

from curro.report.compare import METRIC, Runs, cells, columns, comparison_table, pool, read_runs
from curro.report.drawing import COLOURS, Key, Picture, draw, line, thin, trailing_mean
from curro.report.history import History
from curro.report.html import write_page


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
    found = [
        _picture(histories, METRIC, "rollouts", "Held-out pass@1 against rollouts"),
        _picture(histories, METRIC, "step", "Held-out pass@1 against updates"),
        _picture(histories, "signal_share", "rollouts", "Share of groups with signal", smooth=True),
        _picture(histories, "reward", "rollouts", "Mean reward of the training rollouts", smooth=True),
    ]
    return write_page(
        "comparison.html",
        Path(out),
        title=f"curro: {len(rows)} curricula",
        names=[row.name for row in rows],
        columns=columns(rows),
        cells=[cells(row) for row in rows],
        several=max(row.seeds for row in rows) > 1,
        pictures_found=[picture for picture in found if picture],
    )


def _picture(
    histories: dict[str, list[History]], metric: str, against: str, title: str, *, smooth: bool = False
) -> Picture | None:
    """The means over seeds of a metric with a band of one standard error to both sides."""
    curves = {
        name: pool(name, seeds, metric, against)
        for name, seeds in histories.items()
        if all(len(history.series(metric)[1]) for history in seeds)
    }
    if not curves:
        return None
    legend: list[Key] = []

    def paint(axes: Axes) -> None:
        for i, (name, curve) in enumerate(curves.items()):
            mean, error = (
                trailing_mean(values) if smooth else values for values in (curve.mean, curve.error)
            )
            style = {} if smooth else {"marker": "os^D"[i % 4], "markersize": 4}
            key = line(axes, curve.x, mean, i, **style)
            x, low = thin(curve.x, mean - error)
            high = thin(curve.x, mean + error)[1]
            if len(histories[name]) > 1:
                axes.fill_between(x, low, high, color=COLOURS[key.colour], alpha=0.18, linewidth=0)
            legend.append(replace(key, name=name))
        axes.set_xlabel("training rollouts" if against == "rollouts" else "training step")

    svg = draw(f"compare-{metric.split('/')[0]}-{against}", paint)
    return Picture(title, svg, "Mean of the last ten steps." if smooth else "", legend)

"""How each kind of chart is drawn with matplotlib: lines, stacks, bars, heat maps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba_array

from curro.report.charts import Chart, Series, thin

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
"""Okabe and Ito's, told apart by colour-blind readers; in the page they are --s0, --s1, ..."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Of the lines with these colours, so that they differ without colour too."""

INK = "#1b1c1e"


@dataclass(frozen=True)
class Key:
    """A line of a picture's legend: a name, its colour and the dashes of its line (None for an area)."""

    name: str
    colour: int
    dashes: tuple[float, ...] | None = None


def legend(chart: Chart) -> list[Key]:
    """Of the series that have names."""
    area = chart.kind in ("stack", "bars")
    return [Key(one.name, one.colour, None if area else _dashes(one)) for one in chart.series if one.name]


def paint_chart(axes: Axes, chart: Chart) -> None:
    """Draw what a chart shows and its axes; the title and the legend are left to the caller."""
    _PAINTERS[chart.kind](axes, chart)


def _lines(axes: Axes, chart: Chart) -> None:
    for one in chart.series:
        assert one.x is not None
        styles: dict[str, dict[str, Any]] = {
            "line": {},
            "points": {"marker": "os^D"[one.colour % 4], "markersize": 4},
            "faint": {"alpha": 0.25, "linewidth": 1},
            "rule": {"linewidth": 1.2},
        }
        axes.plot(
            *thin(one.x, one.y),
            color=COLOURS[one.colour],
            dashes=_dashes(one) or (None, None),
            **styles[one.style],
        )
        if one.low is not None and one.high is not None:
            x, low = thin(one.x, one.low)
            axes.fill_between(
                x, low, thin(one.x, one.high)[1], color=COLOURS[one.colour], alpha=0.18, linewidth=0
            )
    for mark in chart.marks:
        axes.annotate("", (mark.x0, mark.y), (mark.x1, mark.y), arrowprops={"arrowstyle": "->", "color": INK})
        axes.annotate(
            mark.text, ((mark.x0 + mark.x1) / 2, mark.y), (0, -13), textcoords="offset points", ha="center"
        )
    if chart.log:
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
    _label(axes, chart)


def _stack(axes: Axes, chart: Chart) -> None:
    assert chart.edges is not None
    below = np.zeros(len(chart.edges) - 1)
    for one in chart.series:
        axes.stairs(below + one.y, chart.edges, baseline=below, fill=True, color=COLOURS[one.colour])
        below = below + one.y
    axes.set_xlim(chart.edges[0], chart.edges[-1])
    _label(axes, chart)


def _bars(axes: Axes, chart: Chart) -> None:
    width = 0.8 / len(chart.series)
    for i, one in enumerate(chart.series):
        places = np.arange(len(one.y)) + width * (i - (len(chart.series) - 1) / 2)
        axes.bar(places, one.y, width, color=COLOURS[one.colour])
    if chart.ticks is not None:
        shown = [(place, label) for place, label in enumerate(chart.ticks) if label is not None]
        axes.set_xticks(*zip(*shown, strict=True))
    axes.grid(axis="x", visible=False)
    _label(axes, chart)


def _heat(axes: Axes, chart: Chart) -> None:
    assert chart.edges is not None
    share = np.array([one.y for one in chart.series])
    row, column = np.nonzero(share > 0)
    left, right, low = chart.edges[column], chart.edges[column + 1], row - 0.5
    corners = np.stack([[left, left, right, right], [low, low + 1, low + 1, low]], axis=-1)
    colours = [COLOURS[chart.series[i].colour] for i in row]
    shades = to_rgba_array(colours, share[row, column] ** 0.5)
    axes.add_collection(PolyCollection(list(corners.swapaxes(0, 1)), facecolors=shades, linewidths=0))
    if chart.ticks is not None:
        shown = [(place, label) for place, label in enumerate(chart.ticks) if label is not None]
        axes.set_yticks(*zip(*shown, strict=True))
    axes.set(xlim=(chart.edges[0], chart.edges[-1]), ylim=(-0.5, len(chart.series) - 0.5))
    axes.grid(visible=False)
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)


def _label(axes: Axes, chart: Chart) -> None:
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    low, high = chart.y_range
    if low is not None:
        axes.set_ylim(bottom=low)
    if high is not None:
        axes.set_ylim(top=high)


def _dashes(series: Series) -> tuple[float, ...]:
    return () if series.style == "rule" else DASHES[series.colour % len(DASHES)]


_PAINTERS: dict[str, Callable[[Axes, Chart], None]] = {
    "lines": _lines,
    "stack": _stack,
    "bars": _bars,
    "heat": _heat,
}

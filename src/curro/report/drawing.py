"""Pictures as inline SVG in the page's own colours and font: one for light, dark, phone and desk."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from curro.report.charts import Chart, Series, thin

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
"""Okabe and Ito's, told apart by colour-blind readers; in the page they are --s0, --s1, ..."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Of the lines with these colours, so that they differ without colour too."""

_INK, _GRID = "#1b1c1e", "#dcdddf"
_VARIABLES = {_INK: "--ink", _GRID: "--grid"} | {colour: f"--s{i}" for i, colour in enumerate(COLOURS)}
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11.5,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "text.color": _INK,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.8,
}


def short(value: float) -> str:
    """A number for an axis or a headline: 1.5k, 20k, 3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class Key:
    """A line of a picture's legend: a name, its colour and the dashes of its line (None for an area)."""

    name: str
    colour: int
    dashes: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Picture:
    """A picture for a page; `svg` is markup, the other texts are not."""

    title: str
    svg: str
    caption: str = ""
    legend: list[Key] = field(default_factory=list)


def draw(name: str, paint: Callable[[Axes], None]) -> str:
    """The SVG of what `paint` draws; `name` is unique on the page and made of letters and hyphens."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(4.3, 2.8), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.tick_params(length=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        paint(axes)
        file = io.StringIO()
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    return _for_page(file.getvalue(), name)


def _for_page(svg: str, name: str) -> str:
    """Cut what belongs to a file of its own; give the page's colours and font; make ids unique."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 aria-hidden="true">', svg, count=1)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub("|".join(_VARIABLES), lambda match: f"var({_VARIABLES[match[0]]})", svg)
    return re.sub(r"\n\s*", "\n", svg)


def line(axes: Axes, x: np.ndarray, y: np.ndarray, series: int = 0, **style: object) -> Key:
    """Draw one of several lines; returns its place in the legend, without a name."""
    dashes = DASHES[series % len(DASHES)]
    colour = series % len(COLOURS)
    drawn = {"color": COLOURS[colour], "dashes": dashes or (None, None), **style}
    axes.plot(*thin(x, y), **drawn)  # type: ignore[arg-type]
    return Key("", colour, dashes)


def picture(chart: Chart) -> Picture:
    """A chart for the page."""
    svg = draw(chart.name, lambda axes: _PAINTERS[chart.kind](axes, chart))
    area = chart.kind in ("stack", "bars")
    legend = [Key(one.name, one.colour, None if area else _dashes(one)) for one in chart.series if one.name]
    return Picture(chart.title, svg, chart.caption, legend)


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
        axes.annotate(
            "", (mark.x0, mark.y), (mark.x1, mark.y), arrowprops={"arrowstyle": "->", "color": _INK}
        )
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
    for row, one in enumerate(chart.series):
        for column, value in enumerate(one.y):
            if value > 0:
                x = chart.edges[column : column + 2]
                axes.fill_between(
                    x, row - 0.5, row + 0.5, color=COLOURS[one.colour], alpha=value**0.5, linewidth=0
                )
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

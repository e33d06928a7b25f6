"""Pictures as inline SVG in the page's own colours and font: one for light, dark, phone and desk."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from curro.report.charts import Chart, Series, thin
from curro.report.rankings import readable

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


_GRID = "#dcdddf"
_VARIABLES = {INK: "--ink", _GRID: "--grid"} | {colour: f"--s{i}" for i, colour in enumerate(COLOURS)}
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11.5,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
}


def short(value: float) -> str:
    """A number for an axis or a headline: 1.5k, 20k, 3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class Picture:
    """A picture for a page; `svg` is markup, the other texts are not."""

    title: str
    svg: str
    caption: str = ""
    legend: list[Key] = field(default_factory=list)


@contextmanager
def figure_of(name: str) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure without a background, in the style of all pictures while the block lasts."""
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
        yield figure, axes


def draw(name: str, paint: Callable[[Axes], None]) -> str:
    """The SVG of what `paint` draws; `name` is unique on the page and made of letters and hyphens."""
    with figure_of(name) as (figure, axes):
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
    svg = draw(chart.name, lambda axes: paint_chart(axes, chart))
    return Picture(chart.title, svg, chart.caption, legend(chart))


DPI = 140


def pixels(chart: Chart) -> np.ndarray:
    """The report's picture on white with its title and legend: uint8 (height, width, 3)."""
    with figure_of(chart.name) as (figure, axes), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # of a source's name: a box
        paint_chart(axes, chart)
        axes.set_title(chart.title, fontsize=11.5)
        keys = legend(chart)
        if keys:
            names = [readable(key.name, 40) for key in keys]
            handles = [_handle(key) for key in keys]
            figure.legend(
                handles, names, loc="outside lower center", ncols=2, fontsize=8.5, frameon=False
            )  # fmt: skip
        figure.patch.set(visible=True, facecolor="white")
        figure.set_dpi(DPI)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _handle(key: Key) -> Line2D | Patch:
    colour = COLOURS[key.colour]
    if key.dashes is None:
        return Patch(color=colour)
    return Line2D([], [], color=colour, dashes=key.dashes or (None, None))

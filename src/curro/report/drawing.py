"""Pictures as inline SVG in the page's own colours and font: one for light, dark, phone and desk."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from curro.report.charts import Chart, thin
from curro.report.painters import COLOURS, DASHES, INK, Key, legend, paint_chart

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

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


def thin(x: np.ndarray, y: np.ndarray, points: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points: means of neighbours."""
    if len(x) <= points:
        return x, y
    edges = np.linspace(0, len(x), points + 1).astype(np.int64)
    count = np.diff(edges)
    return np.add.reduceat(x, edges[:-1]) / count, np.add.reduceat(y, edges[:-1]) / count


def trailing_mean(y: np.ndarray, window: int = 10) -> np.ndarray:
    """The mean of each value and those before it, `window` in all (figure 3 of the paper: ten)."""
    total = np.concatenate([[0.0], np.cumsum(y)])
    end = np.arange(1, len(y) + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)

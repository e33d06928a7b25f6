"""Pictures as data: what `curro.runs.report.drawing` draws, for pages and for loggers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Style = Literal["line", "points", "faint", "rule"]

POINTS = 300
"""The most points of a line."""


@dataclass(frozen=True)
class Series:
    """One line, one kind of bars or one layer of a stack.

    Attributes:
        name: in the legend; empty for none.
        y: float64.
        x: float64 like y for lines; None for bars and layers, whose places are the chart's.
        colour: an index of the palette.
        style: "line", "points" (with marks), "faint", or "rule" (a thin grey line to compare with).
        low, high: the edges of a band around a line.
    """

    name: str
    y: np.ndarray
    x: np.ndarray | None = None
    colour: int = 0
    style: Style = "line"
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Mark:
    """A distance along the x axis, between two lines at one height."""

    x0: float
    x1: float
    y: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture for a page; the texts are no markup.

    Attributes:
        name: unique on a page, of letters and hyphens.
        kind: "lines"; "stack", layers over the spans between `edges`; "bars" side by side at 0, 1, ...; or
            "heat", a row of cells for each series, the first at the bottom, with values from 0 to 1.
        edges: float64, of the spans of a stack or a heat map; one more than there are spans.
        ticks: labels of the places on the x axis of bars, on the y axis of a heat map; None leaves a place
            without one.
        y_range: the ends of the y axis; None where the values decide.
        log: whether the y axis is logarithmic, to base 2.
    """

    name: str
    title: str
    kind: Literal["lines", "stack", "bars", "heat"]
    series: list[Series]
    x_label: str = ""
    y_label: str = ""
    caption: str = ""
    edges: np.ndarray | None = None
    ticks: list[str | None] | None = None
    y_range: tuple[float | None, float | None] = (None, None)
    log: bool = False
    marks: list[Mark] = field(default_factory=list)


def thin(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
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


def time_bins(step: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges of at most `most` spans of whole steps, and the span of each step."""
    width = -(-(step.max() - step.min() + 1) // most)
    bins = (step - step.min()) // width
    return step.min() - 0.5 + width * np.arange(bins.max() + 2), bins

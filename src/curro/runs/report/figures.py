"""Draw the five figures of a run's page, and the two that compare runs, with matplotlib.

Each function draws one figure, or returns None where the run holds nothing to show in it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from curro.core.text import readable, slug
from curro.runs.reader import LEARNABLE, SOLVED, UNSOLVED, GroupColumns, History

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
"""Okabe and Ito's, told apart by colour-blind readers."""

DASHES = ("-", "--", ":", "-.")
"""Line styles that go with the colours, so that lines differ in black and white."""

INK, SOFT, GRID = "#1b1c1e", "#5c6066", "#dcdddf"
BLUE, RED, GREEN = COLOURS[:3]
_VARIABLES = {
    **{colour: f"var(--s{i})" for i, colour in enumerate(COLOURS)},
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    GRID: "var(--grid)",
}

_STYLE: dict[Any, Any] = {
    "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "curro", "font.size": 8.0,
    "font.family": "sans-serif", "text.color": SOFT, "axes.edgecolor": GRID, "axes.labelcolor": SOFT,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.grid": True,
    "axes.grid.axis": "y", "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.6,
    "xtick.color": GRID, "ytick.color": GRID, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT,
    "ytick.left": False, "lines.linewidth": 1.6, "axes.facecolor": "none", "legend.frameon": False,
}  # fmt: skip

WIDTH, HEIGHT, LEGEND_ROW = 4.6, 2.35, 0.17
"""Inches; a page scales the picture to its column."""

POINTS, MARKED = 300, 60
"""The most points of a line, and of one whose points are marked."""

MOST_SOURCES = 6
"""Sources that a figure shows by name; the others are drawn together."""


STEP = "training step"


@dataclass(frozen=True)
class Picture:
    """A figure and its words; `name` is unique on a page, and no text is markup."""

    name: str
    title: str
    caption: str
    figure: Figure

    @property
    def svg(self) -> str:
        """The figure as SVG whose colours are variables of the page, and whose ids begin with its name."""
        file = io.StringIO()
        with _styled():
            no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            FigureCanvasSVG(self.figure).print_svg(file, metadata=no_metadata)
        svg = file.getvalue()
        svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{self.name}-", svg)
        for colour, variable in _VARIABLES.items():
            svg = svg.replace(colour, variable)
        return re.sub(
            r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg class="chart" \1 role="img">', svg, count=1
        )


def run_figures(history: History) -> list[Picture]:
    """Draw the figures for which a run has numbers, the most important first."""
    with _styled():
        drawn = [draw(history) for draw in FIGURES]
    return [picture for picture in drawn if picture is not None]


def held_out(history: History) -> Picture | None:
    """Every pass@k of the evaluations against the rollouts spent."""
    curves = {name.removeprefix("eval/"): history.series(name, "rollouts") for name in history.evaluations}
    return lines("held-out", "Held-out success", curves, x_label="training rollouts", marked=True)


def outcomes(history: History) -> Picture | None:
    """Mixed, all right and all wrong groups, beside the share of mixed ones under uniform sampling."""
    groups = history.groups
    if not len(groups.prompt):
        return None
    spans = Spans.of(groups.step)
    kinds = {
        "mixed: these teach": (LEARNABLE, BLUE),
        "all right": (SOLVED, GREEN),
        "all wrong": (UNSOLVED, RED),
    }
    layers = {name: (spans.share(groups.state == state), colour) for name, (state, colour) in kinds.items()}
    caption = "A group whose rollouts all have the same reward gives no gradient."
    estimate = history.series("signal/uniform_share")
    if len(estimate[0]):
        caption += " Where blue ends above the dashed line, the curriculum finds more than uniform sampling."
    title = "What the chosen prompts gave"
    axes, below = _axes(), np.zeros(len(spans.edges))
    for label, (values, colour) in layers.items():
        above = below + np.append(values, values[-1])
        axes.fill_between(spans.edges, below, above, step="post", color=colour, linewidth=0, label=label)
        below = above
    if len(estimate[0]):
        axes.plot(*thin(*estimate), color=INK, linestyle="--", label="mixed, uniform sampling (est.)")
    axes.set(xlim=(spans.edges[0], spans.edges[-1]), ylim=(0, 1))
    return _picture("outcomes", title, axes, caption, y_label="share of groups")


def reward(history: History) -> Picture | None:
    """The mean reward of the training rollouts: every step faintly, the mean of ten steps over it."""
    x, y = history.series("reward")
    if not len(x):
        return None
    axes = _axes()
    axes.plot(*thin(x, y), color=BLUE, alpha=0.28, linewidth=1)
    axes.plot(*thin(x, trailing_mean(y)), color=BLUE)
    caption = (
        "Mean of ten steps. It follows the choice of prompts as much as the policy: held-out success tells."
    )
    return _picture("reward", "Reward of the training rollouts", axes, caption)


def source_rates(history: History) -> Picture | None:
    """Success rates of the groups of each source; a source that stays at 0 has a format that is not read."""
    groups = history.groups
    if len(groups.sources) < 2:
        return None
    spans, curves = Spans.of(groups.step), {}
    for name, rows in _by_source(groups):
        count, total = spans.sum(rows), spans.sum(np.where(rows, groups.rate, 0))
        curves[name] = spans.middle[count > 0], total[count > 0] / count[count > 0]
    caption = "A source that stays at 0 is too hard, or the reward does not read its format."
    return lines("source-rates", "Success rates by source", curves, caption)


def lengths(history: History) -> Picture | None:
    """Mean tokens of a completion, and the share of completions that the length limit cut."""
    groups = history.groups
    known = np.isfinite(groups.tokens) & (groups.rollouts > 0)
    if not known.any():
        return None
    spans = Spans.of(groups.step[known])
    rollouts, tokens, cut = (
        spans.sum(np.nan_to_num(values[known])) for values in (groups.rollouts, groups.tokens, groups.cut)
    )
    there = rollouts > 0
    x, length, share = spans.middle[there], tokens[there] / rollouts[there], cut[there] / rollouts[there]
    axes = _axes()
    axes.plot(x, length, color=BLUE, label="tokens of a completion")
    right = axes.twinx()
    right.plot(x, share, color=RED, linestyle="--")
    right.set(ylim=(0, max(0.1, 1.1 * float(share.max()))))
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.grid(visible=False)
    axes.plot([], [], color=RED, linestyle="--", label="cut at the limit (right)")
    axes.set_ylim(bottom=0)
    caption = f"{cut.sum() / rollouts.sum():.1%} of all completions were cut."
    return _picture("lengths", "Length of the completions", axes, caption)


FIGURES: tuple[Callable[[History], Picture | None], ...] = (
    held_out,
    outcomes,
    reward,
    source_rates,
    lengths,
)


def lines(
    name: str,
    title: str,
    curves: Mapping[str, Sequence[np.ndarray]],
    caption: str = "",
    *,
    x_label: str = STEP,
    marked: bool = False,
) -> Picture | None:
    """Draw named curves x, y, or x, y, half with a band around y; empty ones are left out."""
    drawn = {label: curve for label, curve in curves.items() if len(curve[0])}
    if not drawn:
        return None
    with _styled():
        axes = _axes()
        for i, (label, curve) in enumerate(drawn.items()):
            colour = COLOURS[i % len(COLOURS)]
            x, y, *half = curve
            few = marked and len(x) <= MARKED
            axes.plot(
                *thin(x, y), color=colour, linestyle=DASHES[i % 4], marker="osD^"[i % 4] if few else None,
                markersize=3, label=_label(label) if len(drawn) > 1 else None,
            )  # fmt: skip
            if half:
                axes.fill_between(x, y - half[0], y + half[0], color=colour, alpha=0.16, linewidth=0)
        return _picture(slug(name), title, axes, caption, x_label=x_label)


def thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average neighbours until there are at most `POINTS` points."""
    if len(x) <= POINTS:
        return x, y
    edges = np.linspace(0, len(x), POINTS + 1).astype(np.int64)
    count = np.diff(edges)
    return np.add.reduceat(x, edges[:-1]) / count, np.add.reduceat(y, edges[:-1]) / count


def trailing_mean(y: np.ndarray, window: int = 10) -> np.ndarray:
    """Average each value with those before it, `window` in all ("Prioritized Replay", figure 3: ten)."""
    total = np.concatenate([[0.0], np.cumsum(y)])
    end = np.arange(1, len(y) + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)


@dataclass(frozen=True)
class Spans:
    """Training cut into spans of whole steps.

    Attributes:
        edges: float64 (K + 1,).
        place: int64 (F,), the span of each group.
    """

    edges: np.ndarray
    place: np.ndarray

    @classmethod
    def of(cls, step_F: np.ndarray, most: int = 60) -> Spans:
        """Cut at most `most` spans."""
        width = -(-(step_F.max() - step_F.min() + 1) // most)
        place = (step_F - step_F.min()) // width
        return cls(step_F.min() - 0.5 + width * np.arange(place.max() + 2), place)

    @property
    def middle(self) -> np.ndarray:
        """The middle of each span, float64 (K,)."""
        return (self.edges[:-1] + self.edges[1:]) / 2

    def sum(self, values_F: np.ndarray) -> np.ndarray:
        """Add up the values of each span's groups, float64 (K,)."""
        return np.bincount(self.place, values_F, len(self.edges) - 1)

    def share(self, rows_F: np.ndarray) -> np.ndarray:
        """The share of these groups in each span; a span without groups repeats the one before."""
        total = np.bincount(self.place, minlength=len(self.edges) - 1)
        known = np.maximum.accumulate(np.where(total > 0, np.arange(len(total)), 0))
        return (self.sum(rows_F) / np.maximum(total, 1))[known]


def _by_source(groups: GroupColumns) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the groups, bool (F,), of each source, the most drawn first; the rest together."""
    count = np.bincount(groups.source[groups.source >= 0], minlength=len(groups.sources))
    order = np.argsort(-count, kind="stable")[:MOST_SOURCES]
    yield from ((groups.sources[i], groups.source == i) for i in order)
    rest = ~np.isin(groups.source, order)
    if rest.any():
        yield "others", rest


def _axes() -> Axes:
    return Figure(figsize=(WIDTH, HEIGHT), facecolor="none").add_axes((0, 0, 1, 1))


def _picture(
    name: str, title: str, axes: Axes, caption: str, *, x_label: str = STEP, y_label: str = ""
) -> Picture:
    """Label the axes and make room for the legend, in two columns above them."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    rows = -(-len(axes.get_legend_handles_labels()[1]) // 2)
    height = HEIGHT + rows * LEGEND_ROW
    figure.set_size_inches(WIDTH, height)
    bottom, top = 0.42 / height, 1 - (0.12 + rows * LEGEND_ROW) / height
    axes.set_position(
        (0.115 if not y_label else 0.13, bottom, 0.85 if len(figure.axes) == 1 else 0.77, top - bottom)
    )
    axes.set_xlabel(x_label, labelpad=2)
    if y_label:
        axes.set_ylabel(y_label, labelpad=2)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: short(value))
    if rows:
        axes.legend(
            ncols=2, loc="lower left", borderpad=0,
            bbox_to_anchor=(0, 1.03), borderaxespad=0, handlelength=1.6, labelspacing=0.3, columnspacing=1.2,
        )  # fmt: skip
    return Picture(name, title, caption, figure)


def _label(name: str) -> str:
    """A name for a legend; matplotlib leaves out names that begin with an underscore."""
    return readable(f" {name}" if name.startswith("_") else name, 34)


def short(value: float) -> str:
    """Write a number for an axis: 1.5k, 20k, 3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


@contextmanager
def _styled() -> Iterator[None]:
    """Set the style, and let characters that the font lacks be boxes without a warning."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield

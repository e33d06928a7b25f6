"""Draws charts for every reader: as SVG for the report and the live page, as pixels for loggers.

`draw` lays a chart out once, as shapes in a plane. `svg` and `pixels` write the shapes down and decide
nothing, so that all readers see the same picture. A picture as SVG takes about a millisecond and has no
colours of its own: the page's style sheet, `charts.css`, gives them, for light and dark. Only `pixels` needs
matplotlib.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from curro.core.text import readable
from curro.runs.report.charts import Chart, Series, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777")
"""Okabe and Ito's, told apart by colour-blind readers; in a page they are the classes s0, s1, ..."""

DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 2), (8, 3, 2, 3))
"""Of the lines with these colours, so that they differ without colour too."""

_INKS = {"ink": "#1b1c1e", "soft": "#5c6066", "grid": "#dcdddf"}
_HEX = _INKS | {f"s{i}": colour for i, colour in enumerate(COLOURS)}

WIDTH, HEIGHT = 320.0, 206.0
"""Of a picture, in units of which its text is 11 high; a page scales it to the room that there is."""

TEXT = 11.0
_CHARACTER = 0.6 * TEXT
"""The width of a digit, in most fonts a little less."""

_RIGHT, _TOP = WIDTH - 14, 10.0
MOST_MARKS = 60
"""Points of a line that are marked one by one."""

_TIPS = 120
"""The most places of a chart at which a reader can ask for its numbers."""


@dataclass(frozen=True)
class Stroke:
    """Lines of one colour: polygonal chains of shape (N, 2)."""

    colour: str
    chains: Sequence[np.ndarray]
    width: float = 1.8
    dashes: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True)
class Area:
    """Filled polygons of one colour, each of shape (N, 2)."""

    colour: str
    polygons: Sequence[np.ndarray]
    opacity: float = 1.0


@dataclass(frozen=True)
class Label:
    """A line of text at (x, y), its baseline; the text is no markup."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"
    colour: Literal["ink", "soft"] = "soft"


Shape = Stroke | Area | Label


@dataclass(frozen=True)
class Drawing:
    """A chart laid out.

    Attributes:
        around: axes and their labels.
        inside: the data, cut off at the axes.
        left, top, right, bottom: of the room between the axes.
        x0, x1: the values at its left and right.
    """

    around: list[Shape]
    inside: list[Shape]
    left: float
    top: float
    right: float
    bottom: float
    x0: float
    x1: float


@dataclass(frozen=True)
class Key:
    """A line of a picture's legend: a name, its colour and the dashes of its line (None for an area)."""

    name: str
    colour: int
    dashes: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Picture:
    """A chart for a page; `svg` is markup, the other texts are not."""

    name: str
    title: str
    svg: str
    caption: str = ""
    legend: list[Key] = field(default_factory=list)


def picture(chart: Chart) -> Picture:
    """A chart for a page."""
    return Picture(chart.name, chart.title, svg(chart), chart.caption, legend(chart))


def legend(chart: Chart) -> list[Key]:
    """Of the series that have names."""
    is_area = chart.kind in ("stack", "bars")
    return [
        Key(series.name, series.colour, None if is_area else _dashes(series))
        for series in chart.series
        if series.name
    ]


def style_sheet() -> str:
    """What a page needs for the pictures' colours, besides its own variables."""
    return (files("curro.runs.report") / "templates" / "charts.css").read_text(encoding="utf-8")


# How a chart becomes shapes


def draw(chart: Chart) -> Drawing:
    """Lay a chart out, without its title, legend and caption."""
    x0, x1, y0, y1 = *_apart(*_x_ends(chart)), *_apart(*_y_ends(chart))
    y_ticks = _y_ticks(chart, y0, y1)
    plane = _Plane(
        left=10 + _CHARACTER * max((len(text) for _, text in y_ticks), default=0),
        top=_TOP + (13 if chart.y_label else 0),
        bottom=HEIGHT - (36 if chart.x_label else 20),
        x0=x0,
        x1=x1,
        y0=y0,
        y1=y1,
    )
    around = list(_axes(chart, plane, y_ticks))
    inside = list(_PAINTERS[chart.kind](chart, plane))
    inside += [shape for mark in chart.marks for shape in _arrow(plane, mark.x0, mark.x1, mark.y, mark.text)]
    return Drawing(around, inside, plane.left, plane.top, _RIGHT, plane.bottom, plane.x0, plane.x1)


@dataclass(frozen=True)
class _Plane:
    """Where values stand in a picture; `y0` and `y1` are logarithms where the axis is logarithmic."""

    left: float
    top: float
    bottom: float
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, values: Any) -> Any:
        return self.left + (np.asarray(values) - self.x0) / (self.x1 - self.x0) * (_RIGHT - self.left)

    def y(self, values: Any) -> Any:
        share = (np.asarray(values) - self.y0) / (self.y1 - self.y0)
        return self.bottom - share * (self.bottom - self.top)


def _x_ends(chart: Chart) -> tuple[float, float]:
    if chart.kind == "bars":
        return -0.5, len(chart.series[0].y) - 0.5
    if chart.edges is not None:
        return float(chart.edges[0]), float(chart.edges[-1])
    return _ends([series.x for series in chart.series if series.x is not None])


def _apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, so far from one another that there are numbers between them."""
    least = 1e-9 * abs(low)
    return low, high if high - low > max(least, 1e-200) else low + max(least, 1.0)


def _y_ends(chart: Chart) -> tuple[float, float]:
    """The ends of the y axis: those of the chart, else those of the values and a little room."""
    if chart.kind == "heat":
        return -0.5, len(chart.series) - 0.5
    shown = [
        _heights(chart, values) for series in chart.series for values in (series.y, series.low, series.high)
    ]
    least, most = _ends([values for values in shown if values is not None])
    if chart.log:
        return least - 0.14, most + 0.14
    low, high = chart.y_range
    least, most = least if low is None else low, most if high is None else high
    room = 0.06 * (most - least or abs(most) or 1.0)
    return least - room * (low is None), most + room * (high is None)


def _heights(chart: Chart, values: np.ndarray | None) -> np.ndarray | None:
    """Values as they stand on the y axis: on a logarithmic one their logarithms, NaN where there is none."""
    if values is None or not chart.log:
        return values
    return np.log2(np.where(values > 0, values, np.nan))


def _ends(arrays: Iterable[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays] or [np.empty(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)


def _y_ticks(chart: Chart, y0: float, y1: float) -> list[tuple[float, str]]:
    if chart.kind == "heat":
        return _named_ticks(chart.ticks)
    return [(value, short(2.0**value if chart.log else value)) for value in round_values(y0, y1, 5)]


def _named_ticks(ticks: list[str | None] | None) -> list[tuple[float, str]]:
    return [(float(i), text) for i, text in enumerate(ticks or []) if text is not None]


def round_values(low: float, high: float, most: int) -> list[float]:
    """About `most` round numbers within the ends: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= 0.999 * rough) * power
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * k for k in range(first, last + 1)]


def _axes(chart: Chart, plane: _Plane, y_ticks: list[tuple[float, str]]) -> Iterator[Shape]:
    heights = plane.y([value for value, _ in y_ticks])
    if chart.kind != "heat":
        yield Stroke("grid", [np.array([[plane.left, y], [_RIGHT, y]]) for y in heights], 0.7)
    yield Stroke("grid", [np.array([[plane.left, plane.bottom], [_RIGHT, plane.bottom]])], 1.0)
    for y, (_, text) in zip(heights, y_ticks, strict=True):
        yield Label(plane.left - 5, float(y) + 4, text, "end")
    named = chart.kind == "bars" and chart.ticks is not None
    x_ticks = (
        _named_ticks(chart.ticks) if named else [(v, short(v)) for v in round_values(plane.x0, plane.x1, 5)]
    )
    for value, text in x_ticks:
        room = _CHARACTER * len(text) / 2
        yield Label(min(float(plane.x(value)), WIDTH - 1 - room), plane.bottom + 15, text)
    if chart.x_label:
        yield Label((plane.left + _RIGHT) / 2, plane.bottom + 31, chart.x_label)
    if chart.y_label:
        yield Label(2, 11, chart.y_label, "start")


def _lines(chart: Chart, plane: _Plane) -> Iterator[Shape]:
    styles = {"line": (1.8, 1.0), "points": (1.8, 1.0), "faint": (1.0, 0.28), "rule": (1.3, 1.0)}
    for series in chart.series:
        assert series.x is not None
        colour, (width, opacity) = f"s{series.colour}", styles[series.style]
        x, y = (plane.x(thin(series.x, series.x)[0]), plane.y(_heights(chart, thin(series.x, series.y)[1])))
        if series.low is not None and series.high is not None:
            low, high = (
                plane.y(_heights(chart, thin(series.x, ends)[1])) for ends in (series.low, series.high)
            )
            known = np.isfinite(low) & np.isfinite(high)
            there = np.column_stack([x, high])[known]
            yield Area(colour, [np.concatenate([there, np.column_stack([x, low])[known][::-1]])], 0.16)
        yield Stroke(colour, _unbroken(x, y), width, _dashes(series), opacity)
        if series.style == "points" and len(x) < MOST_MARKS:
            known = np.isfinite(y)
            yield Area(colour, [_mark(a, b, series.colour) for a, b in zip(x[known], y[known], strict=True)])


def _unbroken(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """The parts of a line between its missing values."""
    known = np.isfinite(y)
    parts = np.split(np.column_stack([x, y]), np.flatnonzero(~known))
    return [part[np.isfinite(part[:, 1])] for part in parts if np.isfinite(part[:, 1]).sum() > 0]


_MARKS = ((10, 0.0, 2.8), (4, math.pi / 4, 3.2), (3, -math.pi / 2, 3.6), (4, 0.0, 3.4))
"""Polygons that mark points, by colour: how many corners, the angle of the first, the radius."""


def _mark(x: float, y: float, colour: int) -> np.ndarray:
    """A polygon around a point, of another form for each of four colours."""
    corners, start, radius = _MARKS[colour % len(_MARKS)]
    angle = start + np.arange(corners) * 2 * math.pi / corners
    return np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle)])


def _stack(chart: Chart, plane: _Plane) -> Iterator[Shape]:
    assert chart.edges is not None
    x = plane.x(np.repeat(chart.edges, 2)[1:-1])
    below = np.zeros(len(chart.edges) - 1)
    for series in chart.series:
        low, high = (plane.y(np.repeat(values, 2)) for values in (below, below + series.y))
        outline = np.concatenate([np.column_stack([x, high]), np.column_stack([x, low])[::-1]])
        yield Area(f"s{series.colour}", [outline])
        below = below + series.y


def _bars(chart: Chart, plane: _Plane) -> Iterator[Shape]:
    width = 0.8 / len(chart.series)
    for i, series in enumerate(chart.series):
        left = np.arange(len(series.y)) - 0.4 + width * i
        shown = np.flatnonzero((series.y > 0) & np.isfinite(series.y))
        yield Area(
            f"s{series.colour}",
            [
                _box(plane.x(left[j]) + 0.4, plane.x(left[j] + width) - 0.4, plane.y(0), plane.y(series.y[j]))
                for j in shown
            ],
        )


def _heat(chart: Chart, plane: _Plane) -> Iterator[Shape]:
    assert chart.edges is not None
    x = plane.x(chart.edges)
    for row, series in enumerate(chart.series):
        low, high = plane.y(row - 0.5), plane.y(row + 0.5)
        for i in np.flatnonzero(series.y > 0):
            yield Area(f"s{series.colour}", [_box(x[i], x[i + 1], low, high)], float(series.y[i]) ** 0.5)


def _box(left: float, right: float, low: float, high: float) -> np.ndarray:
    return np.array([[left, low], [right, low], [right, high], [left, high]])


def _arrow(plane: _Plane, x0: float, x1: float, y: float, text: str) -> Iterator[Shape]:
    start, end, height = float(plane.x(x0)), float(plane.x(x1)), float(plane.y(y))
    back = -6.0 if end > start else 6.0
    head = np.array([[end + back, height - 4], [end, height], [end + back, height + 4]])
    yield Stroke("ink", [np.array([[start, height], [end, height]]), head], 1.2)
    below = height + 15 if height + 18 < plane.bottom else height - 7
    room = _CHARACTER * len(text) / 2
    yield Label(min((start + end) / 2, WIDTH - 1 - room), below, text, colour="ink")


_PAINTERS = {"lines": _lines, "stack": _stack, "bars": _bars, "heat": _heat}


def _dashes(series: Series) -> tuple[float, ...]:
    return () if series.style == "rule" else DASHES[series.colour % len(DASHES)]


def short(value: float) -> str:
    """A number for an axis or a headline: 1.5k, 20k, 3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


# How shapes are written down


def svg(chart: Chart) -> str:
    """A chart as SVG for a page with `style_sheet`, without scripts, styles and references to elsewhere."""
    drawing = draw(chart)
    clip = f"{escape(chart.name)}-plot"
    box = (
        f'x="{drawing.left:.1f}" y="{drawing.top - 4:.1f}" width="{drawing.right - drawing.left + 4:.1f}" '
        f'height="{drawing.bottom - drawing.top + 4:.1f}"'
    )
    label = escape(readable(f"{chart.title}. {chart.caption}", 300))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{label}">'
        f'<clipPath id="{clip}"><rect {box}/></clipPath>{"".join(map(_element, drawing.around))}'
        f'<g clip-path="url(#{clip})">{"".join(map(_element, drawing.inside))}</g></svg>'
    )


def _element(shape: Shape) -> str:
    if isinstance(shape, Label):
        text = escape(readable(shape.text, 60))
        return (
            f'<text class="{shape.colour}" x="{shape.x:.1f}" y="{shape.y:.1f}" '
            f'text-anchor="{shape.anchor}">{text}</text>'
        )
    opacity = "" if shape.opacity == 1 else f' opacity="{shape.opacity:.2f}"'
    if isinstance(shape, Area):
        path = "".join(f"{_path(polygon)}Z" for polygon in shape.polygons)
        return f'<path class="area {shape.colour}" d="{path}"{opacity}/>' if path else ""
    path = "".join(map(_path, shape.chains))
    dashes = f' stroke-dasharray="{" ".join(f"{part:g}" for part in shape.dashes)}"' if shape.dashes else ""
    return (
        f'<path class="line {shape.colour}" d="{path}" stroke-width="{shape.width:g}"{dashes}{opacity}/>'
        if path
        else ""
    )


def _path(points: np.ndarray) -> str:
    return "M" + "L".join([f"{x:.1f} {y:.1f}" for x, y in points.tolist()])


DPI = 140


def pixels(chart: Chart) -> np.ndarray:
    """The picture of `svg` on white with the chart's title and legend: uint8 (height, width, 3)."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    head, keys = 18.0, legend(chart)
    rows = -(-len(keys) // 2)
    height = head + HEIGHT + 15 * rows + 4 * bool(rows)
    style: Any = {"text.parse_math": False, "lines.scale_dashes": False, "font.size": 8.5}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=DPI, facecolor="white")
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        drawing = draw(chart)
        left, right = drawing.left, drawing.right + 4
        plot = _box(left, right, head + drawing.top - 4, head + drawing.bottom)
        for shape in drawing.around:
            _paint(axes, shape, head)
        for shape in drawing.inside:
            _paint(axes, shape, head, plot)
        _paint(axes, Label(WIDTH / 2, 13, chart.title, colour="ink"), 0)
        for i, key in enumerate(keys):
            _paint_key(axes, key, 14 + WIDTH / 2 * (i % 2), head + HEIGHT + 15 * (i // 2) + 8)
        canvas = FigureCanvasAgg(figure)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")  # of a source's name: a box
            canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _paint_key(axes: Axes, key: Key, x: float, y: float) -> None:
    colour = f"s{key.colour}"
    if key.dashes is None:
        _paint(axes, Area(colour, [_box(x, x + 18, y + 4, y - 4)]), 0)
    else:
        _paint(axes, Stroke(colour, [np.array([[x, y], [x + 18, y]])], dashes=key.dashes), 0)
    _paint(axes, Label(x + 23, y + 3, readable(key.name, 24), "start", "ink"), 0)


def _paint(axes: Axes, shape: Shape, down: float, plot: np.ndarray | None = None) -> None:
    """Draw a shape `down` units below its place, cut off at the edges of `plot`."""
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.patches import Polygon

    move = np.array([0.0, down])
    if isinstance(shape, Label):
        alignment = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
        text, colour = readable(shape.text, 60), _HEX[shape.colour]
        axes.text(shape.x, shape.y + down, text, color=colour, ha=alignment, va="baseline")
        return
    drawn: LineCollection | PolyCollection
    if isinstance(shape, Area):
        drawn = PolyCollection(
            [polygon + move for polygon in shape.polygons], facecolors=_HEX[shape.colour], linewidths=0
        )
    else:
        drawn = LineCollection(
            [chain + move for chain in shape.chains], colors=_HEX[shape.colour], linewidths=shape.width,
            linestyles=(0, shape.dashes) if shape.dashes else "solid",
        )  # fmt: skip
    drawn.set_alpha(None if shape.opacity == 1 else shape.opacity)
    axes.add_collection(drawn, autolim=False)
    if plot is not None:
        outline = Polygon(plot, transform=axes.transData)
        drawn.set_clip_path(outline)


# What a live page shows under the pointer


def live_picture(chart: Chart) -> dict[str, Any]:
    """A picture as plain values for a page with scripts: also `tips`, the numbers at places of its x axis.

    Each tip has `x`, where it stands in the picture, `head`, what the place is, and `rows` of a colour, a
    name and a number.
    """
    drawing = draw(chart)
    tips = list(_tips(chart, drawing))
    return asdict(picture(chart)) | {"tips": tips, "top": drawing.top, "bottom": drawing.bottom}


def _tips(chart: Chart, drawing: Drawing) -> Iterator[dict[str, Any]]:
    def tip(value: float, head: str, rows: list[tuple[int, str, str]]) -> dict[str, Any]:
        share = (value - drawing.x0) / (drawing.x1 - drawing.x0)
        x = drawing.left + share * (drawing.right - drawing.left)
        return {"x": round(x, 1), "head": head, "rows": rows}

    if chart.kind == "lines":
        shown = [series for series in chart.series if series.style != "faint" and series.x is not None]
        curves = [(series, *thin(series.x, series.y)) for series in shown if series.x is not None]
        own = [x for series, x, _ in curves if series.style != "rule" or len(x) > 2]
        positions = np.unique(np.concatenate(own or [np.empty(0)]))
        positions = positions[:: max(1, -(-len(positions) // _TIPS))]
        columns = [
            (series.colour, readable(series.name or chart.title, 60), _nearest(positions, x, y).tolist())
            for series, x, y in curves
            if len(x)
        ]
        for i, value in enumerate(positions.tolist()):
            rows = [
                (colour, name, short(near[i])) for colour, name, near in columns if math.isfinite(near[i])
            ]
            number = f"{value:,.0f}" if value == round(value) else short(value)
            yield tip(value, f"{chart.x_label} {number}", rows)
        return
    for i in range(len(chart.series[0].y)):
        if chart.edges is None:
            value = float(i)
            head = f"{chart.x_label} {_tick(chart.ticks, i)}"
        else:
            value = float(chart.edges[i] + chart.edges[i + 1]) / 2
            first, last = math.ceil(chart.edges[i]), math.floor(chart.edges[i + 1])
            head = f"{chart.x_label} {first}" if first == last else f"{chart.x_label}s {first} to {last}"
        if chart.kind == "heat":
            rows = [
                (series.colour, _tick(chart.ticks, row), _percent(float(series.y[i])))
                for row, series in reversed(list(enumerate(chart.series)))
                if series.y[i] > 0.005
            ]
        else:
            rows = [
                (series.colour, readable(series.name, 60), _percent(float(series.y[i])))
                for series in chart.series
            ]
        yield tip(value, head, rows)


def _nearest(positions: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The values of a line at its points that are nearest to some places."""
    after = np.clip(np.searchsorted(x, positions), 1, max(len(x) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(x) - 1)
    return y[np.where(positions - x[before] <= x[after] - positions, before, after)]


def _tick(ticks: list[str | None] | None, i: int) -> str:
    """The name of a place on an axis; of one between those that have names its share in eighths."""
    return f"{i}" if ticks is None else ticks[i] or f"{i}/8"


def _percent(share: float) -> str:
    return f"{share:.{1 if share < 0.1 else 0}%}"

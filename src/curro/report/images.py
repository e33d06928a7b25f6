"""Pictures as pixels, for loggers that take images."""

from __future__ import annotations

import warnings

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from curro.report.charts import Chart
from curro.report.drawing import figure_of
from curro.report.painters import COLOURS, Key, legend, paint_chart
from curro.report.rankings import readable

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

"""Pictures as pixels: the report's, in its colours."""

import warnings

import numpy as np

from curro.report.charts import Chart, Series
from curro.report.drawing import COLOURS, pixels

HOSTILE = "</svg>$\\frac{1}{0}$_\x1b[31m\u202e\ud800数" * 9


def share_of(image, colour):
    rgb = [int(COLOURS[colour][i : i + 2], 16) for i in (1, 3, 5)]
    return float((image == rgb).all(axis=-1).mean())


def stack(shares, names=("first", "second")):
    edges = np.array([0.0, 1.0, 2.0])
    series = [
        Series(name, np.full(2, share), colour=i)
        for i, (name, share) in enumerate(zip(names, shares, strict=True))
    ]
    return Chart("stack", "A stack", "stack", series, "x", "y", edges=edges, y_range=(0, 1))


def test_areas_have_the_sizes_of_their_shares():
    image = pixels(stack((0.25, 0.75), ("", "")))
    assert (image.dtype, image.ndim, image.shape[2]) == (np.uint8, 3, 3)
    assert image[0, 0].tolist() == [255, 255, 255]
    first, second = share_of(image, 0), share_of(image, 1)
    assert 0.3 < first + second < 0.9
    assert 0.2 < first / (first + second) < 0.3


def test_a_legend_names_what_is_drawn():
    assert share_of(pixels(stack((0.0, 1.0))), 0) > 0.0005
    assert share_of(pixels(stack((0.0, 1.0), ("", ""))), 0) < 0.0001


def test_cells_of_a_heat_map_stand_where_they_belong():
    edges = np.array([0.0, 1.0, 2.0])
    rows = [Series("", np.array([1.0, 0.0])), Series("", np.array([0.0, 0.0]))]
    blue = pixels(Chart("heat", "", "heat", rows, edges=edges, ticks=["0", "1"]))
    height, width = blue.shape[:2]
    assert share_of(blue[height // 2 :, : width // 2], 0) > 0.4
    assert share_of(blue[: height // 2 - 20], 0) == 0
    assert share_of(blue[:, width // 2 + 40 :], 0) == 0


def test_names_are_drawn_as_text_whatever_they_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image = pixels(stack((0.5, 0.5), (HOSTILE, "数")))
    assert image.shape[1] < 700

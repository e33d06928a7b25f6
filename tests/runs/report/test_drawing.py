"""Charts as a page shows them and as pixels: where things stand, by hand, and that texts stay texts."""

import json
import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

from curro.runs.report.charts import Chart, Mark, Series
from curro.runs.report.drawing import COLOURS, Label, draw, live_picture, pixels, round_values, svg

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


def lines(*series, **options):
    return Chart("c", "C", "lines", list(series), "training step", **options)


def parsed(chart):
    return ElementTree.fromstring(svg(chart).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))


def paths(chart, colour):
    """The points of every path of a colour, as an array a path."""
    return [
        np.array([[float(v) for v in pair.split()] for pair in re.split("[MLZ]+", path.get("d")) if pair])
        for path in parsed(chart).iter("{http://www.w3.org/2000/svg}path")
        if path.get("class").split()[1] == colour
    ]


def test_a_line_stands_where_its_values_are():
    y = np.array([0.0, 1.0, 0.5])
    chart = lines(Series("", y, np.array([0.0, 5.0, 10.0])), y_range=(0, 1))
    drawing = draw(chart)
    (line,) = paths(chart, "s0")
    middle = (drawing.left + drawing.right) / 2
    height = drawing.bottom - drawing.top
    assert line[:, 0] == pytest.approx([drawing.left, middle, drawing.right], abs=0.051)
    assert line[:, 1] == pytest.approx([drawing.bottom, drawing.top, drawing.bottom - height / 2], abs=0.051)


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios():
    chart = lines(Series("", np.array([1.0, 2.0, 4.0, 8.0]), np.arange(4.0)), log=True)
    (line,) = paths(chart, "s0")
    steps = -np.diff(line[:, 1])
    assert steps == pytest.approx([steps[0]] * 3, abs=0.11)
    assert {"1", "2", "4", "8"} <= {shape.text for shape in draw(chart).around if isinstance(shape, Label)}


def test_a_missing_value_breaks_a_line():
    chart = lines(Series("", np.array([1.0, np.nan, 1.0, 2.0]), np.arange(4.0)))
    found = parsed(chart).iter("{http://www.w3.org/2000/svg}path")
    (path,) = (path for path in found if path.get("class") == "line s0")
    assert path.get("d").count("M") == 2


def test_layers_of_a_stack_fill_the_picture():
    drawing, (first,), (second,) = (
        draw(stack((0.25, 0.75))),
        *(paths(stack((0.25, 0.75)), c) for c in ("s0", "s1")),
    )
    edge = drawing.bottom - (drawing.bottom - drawing.top) / 4
    assert first[:, 1].min() == pytest.approx(edge, abs=0.051)
    assert first[:, 1].max() == pytest.approx(drawing.bottom, abs=0.051)
    assert second[:, 1].max() == pytest.approx(edge, abs=0.051)
    assert second[:, 1].min() == pytest.approx(drawing.top, abs=0.051)


def test_the_arrow_of_a_distance_points_to_its_end():
    chart = lines(
        Series("", np.array([0.0, 1.0]), np.array([0.0, 10.0])),
        y_range=(0, 1),
        marks=[Mark(8, 2, 0.5, "6 fewer")],
    )
    shaft, head = (np.array(part) for part in np.split(paths(chart, "ink")[0], [2]))
    assert head[1] == pytest.approx(shaft[1])
    assert shaft[0, 0] > shaft[1, 0]
    assert (head[[0, 2], 0] > head[1, 0]).all()
    assert "6 fewer" in svg(chart)


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 12000, [0, 2500, 5000, 7500, 10000]),
        (-3, 2, [-3, -2, -1, 0, 1, 2]),
    ],
)
def test_ticks_are_round(low, high, values):
    assert round_values(low, high, 5) == pytest.approx(values)


def test_texts_of_a_run_are_no_markup():
    chart = lines(
        Series(HOSTILE, np.array([1.0, 2.0]), np.arange(2.0)), caption=HOSTILE, marks=[Mark(0, 1, 1, HOSTILE)]
    )
    for text in [*(label.text or "" for label in parsed(chart).iter()), parsed(chart).get("aria-label")]:
        assert "\x1b" not in text
        assert "\u202e" not in text
    sent = live_picture(chart)
    assert "\u202e" not in json.dumps(sent["tips"], ensure_ascii=False)


def test_tips_have_the_numbers_of_all_lines():
    step = np.array([1.0, 2.0, 4.0])
    chart = lines(
        Series("this", np.array([1.0, 3.0, 1500.0]), step),
        Series("faint", step, step, style="faint"),
        Series("level", np.ones(2), np.array([1.0, 4.0]), 6, "rule"),
    )
    tips = live_picture(chart)["tips"]
    drawing = draw(chart)
    assert [tip["head"] for tip in tips] == ["training step 1", "training step 2", "training step 4"]
    assert tips[2]["rows"] == [(0, "this", "1.5k"), (6, "level", "1")]
    assert [tip["x"] for tip in tips] == pytest.approx(
        [drawing.left, drawing.left + (drawing.right - drawing.left) / 3, drawing.right], abs=0.051
    )


def test_tips_of_layers_bars_and_cells_are_shares():
    first = live_picture(stack((0.25, 0.75)))["tips"][0]
    assert (first["head"], first["rows"]) == ("xs 0 to 1", [(0, "first", "25%"), (1, "second", "75%")])
    bars = Chart("b", "B", "bars", [Series("now", np.array([0.05, 1.0]))], "visits", ticks=["none", None])
    assert [(tip["head"], tip["rows"]) for tip in live_picture(bars)["tips"]] == [
        ("visits none", [(0, "now", "5.0%")]),
        ("visits 1/8", [(0, "now", "100%")]),
    ]
    cells = [Series("", np.array([0.3, 0.0])), Series("", np.array([0.7, 1.0]))]
    heat = Chart("h", "H", "heat", cells, "step", edges=np.array([0.5, 4.5, 8.5]), ticks=["0", None])
    assert [(tip["head"], tip["rows"]) for tip in live_picture(heat)["tips"]] == [
        ("steps 1 to 4", [(0, "1/8", "70%"), (0, "0", "30%")]),
        ("steps 5 to 8", [(0, "1/8", "100%")]),
    ]


def test_what_a_page_is_sent_is_json_and_short():
    long = np.linspace(0, 1, 100_000)
    chart = lines(Series("", long, long, low=long, high=long))
    assert len(json.dumps(live_picture(chart), allow_nan=False)) < 40_000
    odd = Chart("c", "C", "bars", [Series("", np.array([np.nan, np.inf, 1 / 3]))])
    json.dumps(live_picture(odd), allow_nan=False)
    assert len(paths(odd, "s0")[0]) == 4


def test_nothing_to_show_is_still_a_picture():
    assert parsed(lines(Series("", np.array([np.nan]), np.array([1.0])))) is not None
    assert pixels(lines(Series("", np.array([np.nan]), np.array([1.0])))).dtype == np.uint8

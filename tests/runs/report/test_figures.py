"""The numbers of the figures, worked out by hand from what matplotlib was told to draw."""

import numpy as np
import pytest

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report import figures

HOSTILE = '<script>alert("x")</script> $\\frac{1}{0}$ \x1b[31m\u202e url(#a) id="b"'


@pytest.fixture
def history(tmp_path):
    """Four prompts of five, two visited twice; 4 rollouts a group."""
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 4, "rollouts": 24, "table/unseen": 1.0, "signal/uniform_share": 0.25})
    groups = [
        (1, 0, 0.5, "a"), (1, 1, 0.0, "b"), (2, 2, 1.0, "a"),
        (3, 0, 1.0, "a"), (3, 3, 0.25, "b"), (4, 1, 0.5, "b"),
    ]  # fmt: skip
    run.append_groups(
        {"step": step, "prompt": prompt, "key": "k", "reason": 5, "mean": mean, "variance": mean * (1 - mean),
         "admitted": step != 3, "rollouts": 4, "tokens": 100, "cut": 1, "source": source}
        for step, prompt, mean, source in groups
    )  # fmt: skip
    return read_history(run)


def curves(picture, axes=0):
    return {line.get_label(): line.get_ydata().tolist() for line in picture.figure.axes[axes].get_lines()}


def test_outcomes_are_shares_of_each_step_beside_the_estimate_for_uniform_sampling(history):
    picture = figures.outcomes(history)
    vertices = picture.figure.axes[0].collections[0].get_paths()[0].vertices
    tops = [vertices[np.isclose(vertices[:, 0], step), 1].max() for step in (0.5, 1.5, 2.5, 3.5)]
    assert tops == [0.5, 0.5, 0.5, 1]  # mixed: a half, none, a half and all; an edge belongs to both spans
    assert curves(picture)["mixed, uniform sampling (est.)"] == [0.25]


def test_sources_and_lengths(history):
    assert curves(figures.source_rates(history)) == {
        "a": [0.5, 1, 1], "b": [0, 0.25, 0.5],
    }  # fmt: skip
    assert curves(figures.lengths(history))["tokens of a completion"] == [25, 25, 25, 25]
    assert "25.0% of all completions were cut" in figures.lengths(history).caption


def test_every_step_of_the_reward_has_the_mean_of_ten_over_it(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    for step in range(12):
        run.append_metrics({"step": step, "rollouts": step, "reward": float(step)})
    exact, mean = (line.get_ydata() for line in figures.reward(read_history(run)).figure.axes[0].get_lines())
    assert exact.tolist() == list(range(12))
    assert mean[[0, 1, 11]] == pytest.approx([0, 0.5, 6.5])


def test_long_curves_are_thinned_to_means():
    x, y = figures.thin(np.arange(3000.0), np.ones(3000))
    assert (len(x), x[0], y.tolist()) == (300, 4.5, [1.0] * 300)


def test_spans_are_whole_steps():
    spans = figures.Spans.of(np.array([3, 4, 5, 9]), 4)
    assert spans.edges.tolist() == [2.5, 4.5, 6.5, 8.5, 10.5]
    assert spans.sum(np.ones(4)).tolist() == [2, 1, 0, 1]
    assert spans.share(np.array([True, False, True, False])).tolist() == [0.5, 1, 1, 0]


def test_numbers_on_axes():
    assert [figures.short(value) for value in (0.25, 1500, 2e4, 3e6, -2e9)] == [
        "0.25",
        "1.5k",
        "20k",
        "3M",
        "-2G",
    ]


def test_an_svg_has_the_pages_colours_own_ids_and_hostile_texts_as_text():
    x = np.arange(3.0)
    picture = figures.lines("two words", "t", {HOSTILE: (x, x), "b": (x, x)}, marked=True)
    svg = picture.svg
    assert svg.startswith('<svg class="chart" viewBox=')
    assert "#0072b2" not in svg
    assert "var(--s0)" in svg
    assert "<script" not in svg
    assert "&lt;script&gt;alert" in svg
    assert "\x1b" not in svg
    assert "<style" not in svg
    assert "<metadata" not in svg
    assert svg == picture.svg


def test_a_curve_with_a_band():
    band = (np.array([0.0, 1]), np.array([0.5, 0.6]), np.array([0.1, 0.2]))
    (area,) = figures.lines("a", "t", {"a": band}).figure.axes[0].collections
    assert area.get_paths()[0].get_extents().bounds == pytest.approx((0, 0.4, 1, 0.4))


def test_nothing_to_draw(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 8})
    assert figures.run_figures(read_history(run)) == []
    assert figures.lines("a", "t", {"a": (np.empty(0), np.empty(0))}) is None

"""The comparison: levels and crossings by hand, its table and its page."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from curro import Curriculum
from curro.core.errors import RunError
from curro.core.intervals import bootstrap_interval
from curro.runs.folder import RunFolder, find_runs
from curro.runs.report.compare import (
    by_curriculum,
    changed_data,
    comparison_table,
    crossing,
    isotonic,
    render_comparison,
)
from curro.runs.report.page import write_comparison


def evaluated(path, values, rollouts=100):
    run = RunFolder.create(path, {})
    for step, value in enumerate(values):
        run.append_metrics(
            {"step": step, "rollouts": step * rollouts, "seconds": 2.0 * step, "eval/pass@1": value}
        )
    return run


def test_isotonic_pools_what_falls_and_is_nearest():
    assert isotonic(np.array([1.0, 2, 3])).tolist() == [1, 2, 3]
    assert isotonic(np.array([1.0, 3, 2, 4])).tolist() == [1, 2.5, 2.5, 4]
    assert isotonic(np.array([3.0, 2, 1])).tolist() == [2, 2, 2]
    assert isotonic(np.array([5.0, 1, 4, 2])).tolist() == [3, 3, 3, 3]
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    fit = isotonic(y)
    assert (np.diff(fit) >= 0).all()
    for _ in range(300):
        other = np.sort(fit + 0.1 * rng.normal(size=30))
        assert np.square(y - fit).sum() <= np.square(y - other).sum()


def test_crossing_is_on_the_straight_line_between():
    x, y = np.array([0.0, 100, 200]), np.array([0.1, 0.3, 0.5])
    assert crossing(x, y, 0.4) == pytest.approx(150)
    assert crossing(x, y, 0.1) == 0
    assert crossing(x, y, 0.5) == 200
    assert crossing(x, y, 0.51) is None


def test_a_file_that_was_changed_between_two_seeds_is_named(tmp_path):
    """The same command goes on with the seeds that are left, on what the file holds then."""
    folders = []
    for seed, texts in enumerate((["a", "b"], ["a", "b"], ["a", "c"], None)):
        settings = {"data": "d.jsonl", "seed": seed}
        folders.append(RunFolder.create(tmp_path / f"seed{seed}", {"settings": settings}))
        if texts is not None:
            folders[-1].write_table(Curriculum("uniform", [{"prompt": text} for text in texts]).table)
    assert changed_data(folders[:2]) == changed_data(folders[3:]) == []
    (sentence,) = changed_data(folders)
    assert re.search("d.jsonl was changed between the runs in .*seed0 and .*seed2", sentence)


def test_rows(tmp_path):
    runs = {
        "uniform": [evaluated(tmp_path / "u", [0.1, 0.2, 0.3, 0.4, 0.5])],
        "fast": [evaluated(tmp_path / "f", [0.1, 0.4, 0.6, 0.6, 0.7])],
        "slow": [evaluated(tmp_path / "s", [0.1, 0.1, 0.2, 0.2, 0.3])],
    }
    uniform, fast, slow = comparison_table(runs)
    assert (uniform.to_level, uniform.speedup, uniform.final, uniform.error) == (400, 1, 0.5, None)
    assert fast.to_level == pytest.approx(150)
    assert fast.speedup == pytest.approx(400 / 150)
    assert (slow.to_level, slow.speedup, slow.rollouts, slow.seconds) == (None, None, 400, 8)


def test_judgments_are_rollouts(tmp_path):
    """A step has 100 rollouts and 50 judgments, whose number the line of an evaluation does not repeat."""
    judge = RunFolder.create(tmp_path / "j", {})
    judge.append_metrics({"step": 0, "rollouts": 0, "seconds": 0.0, "eval/pass@1": 0.1})
    judge.append_metrics({"step": 1, "rollouts": 100, "seconds": 1.0, "judge/judgments": 50.0})
    judge.append_metrics({"step": 1, "rollouts": 100, "seconds": 1.0, "eval/pass@1": 0.5})
    judge.append_metrics(
        {"step": 2, "rollouts": 200, "seconds": 2.0, "judge/judgments": 100.0, "eval/pass@1": 0.6}
    )
    uniform = evaluated(tmp_path / "u", [0.1, 0.2, 0.3, 0.5])
    row = comparison_table({"uniform": [uniform], "judge": [judge]})[1]
    assert (row.to_level, row.speedup, row.rollouts) == (150, 2, 300)


def test_a_factor_of_several_seeds_has_its_interval(tmp_path):
    up, at_once, never = [0.0, 0.2, 0.4], [0.0, 0.4, 0.4], [0.0, 0.0, 0.0]

    def seeds(name, *curves):
        return [evaluated(tmp_path / f"{name}{i}", curve) for i, curve in enumerate(curves)]

    runs = {
        "uniform": seeds("u", *[up] * 5),
        "fast": seeds("f", *[at_once] * 4, up),
        "had": seeds("h", *[[0.5] * 3] * 2, *[up] * 3),
        "torn": seeds("t", *[[0.0, 0.8, 0.8]] * 3, *[never] * 2),
        "late": seeds("l", *[[0.0, 0.0, 0.2]] * 4, [0.0, 0.8, 0.8]),
    }
    uniform, fast, had, torn, late = comparison_table(runs)
    assert uniform.interval is None
    # the level .4 at 200; five draws of the last seed, one resample in 3,125, hardly move the upper end
    assert fast.speedup == pytest.approx(1)
    assert fast.interval == pytest.approx((1, 2))
    # of the mean, .2, .32 and .44, at 167; the first two alone have it from the start
    assert had.speedup == pytest.approx(200 / (100 + 100 * 0.08 / 0.12))
    assert had.interval == pytest.approx((1, np.inf))
    # of the mean, which rises to .48 at once, at 83; of three seeds that are those that rise, at 50
    assert torn.speedup == pytest.approx(200 / (100 * 0.4 / 0.48))
    assert torn.interval == pytest.approx((0, 4))
    # a level that was not reached has the interval too, so that not the lucky ones alone have one
    assert late.speedup is None
    assert late.interval == pytest.approx((0, 200 / (100 * 0.4 / 0.64)))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_comparison([uniform, fast, torn]))
    text = console.export_text()
    assert "(1.00, " in text
    assert "95% intervals over seeds" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    page = write_comparison(runs, tmp_path / "c.html").read_text()
    assert "(0.00, 4.00)" in page


def test_quantiles_of_few_seeds_are_further_out():
    # t(9) = 2.262, times sqrt(10 / 9) is 2.385, beyond which the normal distribution has .0085
    values = np.linspace(0, 1, 100_001)
    assert bootstrap_interval(values, 10, 9) == pytest.approx((0.0085, 0.9915), abs=1e-4)
    assert bootstrap_interval(values, 10_000, 10_000) == pytest.approx((0.025, 0.975), abs=1e-4)


def test_a_lucky_evaluation_does_not_reach_the_level(tmp_path):
    runs = {
        "uniform": [evaluated(tmp_path / "u", [0.1, 0.2, 0.3, 0.4, 0.5])],
        "lucky": [evaluated(tmp_path / "l", [0.1, 0.6, 0.2, 0.3, 0.4])],
    }
    assert comparison_table(runs)[1].to_level is None


def test_seeds_are_averaged_on_what_all_cover(tmp_path):
    runs = {
        "uniform": [
            evaluated(tmp_path / "a", [0.0, 0.2, 0.4]),
            evaluated(tmp_path / "b", [0.2, 0.4, 0.6, 0.8], rollouts=80),
        ]
    }
    (row,) = comparison_table(runs)
    assert row.seeds == 2
    assert row.final == pytest.approx(0.6)
    assert row.error == pytest.approx(0.2)
    assert row.rollouts == pytest.approx(220)
    assert row.to_level == pytest.approx(200)


def test_a_first_curriculum_that_has_the_level_from_the_start_gives_no_ratio(tmp_path):
    runs = {"flat": [evaluated(tmp_path / "a", [0.5, 0.4])], "up": [evaluated(tmp_path / "b", [0.3, 0.6])]}
    flat, up = comparison_table(runs)
    assert (flat.to_level, flat.speedup, up.speedup) == (0, None, None)
    assert up.to_level == pytest.approx(50)


def test_what_cannot_be_compared_is_said(tmp_path):
    with pytest.raises(RunError, match="nothing to compare"):
        comparison_table({})
    with pytest.raises(RunError, match="no run of 'a'"):
        comparison_table({"a": []})
    blind = RunFolder.create(tmp_path / "blind", {})
    blind.append_metrics({"step": 1, "rollouts": 8, "seconds": 1})
    with pytest.raises(RunError, match=r"blind has no held-out eval/pass@1"):
        comparison_table({"a": [blind]})
    late = RunFolder.create(tmp_path / "late", {})
    late.append_metrics({"step": 9, "rollouts": 900, "seconds": 1, "eval/pass@1": 0.5})
    with pytest.raises(RunError, match="no stretch of training in common"):
        comparison_table({"a": [evaluated(tmp_path / "early", [0.1, 0.2]), late]})


def test_the_page(runs, tmp_path):
    page = write_comparison(runs, tmp_path / "pages" / "compare.html").read_text()
    assert page.count("<figure>") == 2
    assert "published&#39;s level" in page
    assert "<script" not in page


def test_below_five_seeds_there_is_no_factor(tmp_path):
    runs = {
        "uniform": [evaluated(tmp_path / "u", [0.1, 0.103])],
        "other": [evaluated(tmp_path / "o", [0.1, 0.106])],
    }
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_comparison(comparison_table(runs)))
    for text in (console.export_text(), write_comparison(runs, tmp_path / "c.html").read_text()):
        assert not re.search(r"\d\.\d\dx|fewer|sooner|intervals over seeds", text)
        assert "Numbers and lines" not in text


def test_runs_that_differ_in_their_seed_alone_are_one_curriculum(tmp_path):
    def run(name, selection, **parts):
        config = {"curriculum": {"selection": {"name": selection}, "admission": None, **parts}}
        folder = RunFolder.create(tmp_path / name, config)
        folder.append_metrics({"step": 1, "rollouts": 8, "eval/pass@1": 0.5})
        return folder

    gated = run("g", "frontier", admission={"name": "signal"})
    runs = [run("f0", "frontier", seed=0), gated, run("u", "uniform"), run("f1", "frontier", seed=1)]
    found = by_curriculum(runs)
    assert {name: [folder.name for folder in folders] for name, folders in found.items()} == {
        "uniform": ["u"], "frontier": ["f0", "f1"], "frontier admission=signal": ["g"],
    }  # fmt: skip
    assert next(iter(found)) == "uniform"


def test_runs_of_other_tasks_or_rates_are_not_seeds_of_one_curriculum(tmp_path):
    def run(name, **settings):
        config = {"curriculum": {"selection": {"name": "uniform"}}, "settings": settings}
        folder = RunFolder.create(tmp_path / name, config)
        folder.append_metrics({"step": 1, "rollouts": 8, "eval/pass@1": 0.5})
        return folder

    runs = [run("a", data="x", learning_rate=1e-5, seed=0), run("b", data="x", learning_rate=1e-5, seed=1)]
    assert list(by_curriculum(runs)) == ["uniform"]
    runs += [run("c", data="x", learning_rate=1e-6, seed=2), run("d", data="y", learning_rate=1e-5, seed=2)]
    named = {name: [folder.name for folder in folders] for name, folders in by_curriculum(runs).items()}
    assert named == {
        "uniform data=x learning_rate=1e-05": ["a", "b"],
        "uniform data=x learning_rate=1e-06": ["c"],
        "uniform data=y learning_rate=1e-05": ["d"],
    }


def test_a_models_folder_beside_runs_is_no_run(tmp_path):
    evaluated(tmp_path / "run", [0.1, 0.2])
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "llama", "hidden_size": 8}')
    assert find_runs([tmp_path]) == [tmp_path / "run"]
    with pytest.raises(RunError, match="holds no run"):
        RunFolder.open(tmp_path / "model")

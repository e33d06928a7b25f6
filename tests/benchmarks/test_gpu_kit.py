"""The kit for a machine with a card: what it packs, and how it runs what it has unpacked."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import typer
from benchmarks import common
from benchmarks.gpu import pack, run
from benchmarks.learning import pretrained_natures as natures
from benchmarks.learning.pretrained_natures import cases, device
from tests.rollout.tiny_gguf import write_tiny_gguf
from typer.testing import CliRunner

from curro import Curriculum
from curro.runs.json_lines import read_rows


def test_weights_in_parts_come_together_again(tmp_path):
    whole = bytes(range(256)) * 10
    (tmp_path / "model.gguf").write_bytes(whole)
    parts = pack.split(tmp_path / "model.gguf", tmp_path / "parts", size=1_000)
    assert [part.stat().st_size for part in parts] == [1_000, 1_000, 560]
    assert pack.join(tmp_path / "parts", tmp_path / "there").read_bytes() == whole


def test_a_missing_part_is_not_passed_over(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"weights")
    pack.split(tmp_path / "model.gguf", tmp_path / "parts", size=3)[1].unlink()
    with pytest.raises(SystemExit, match=r"model\.gguf"):
        pack.join(tmp_path / "parts", tmp_path)


def test_what_is_there_is_not_packed_and_neither_is_what_only_it_needs():
    everything = set(pack.missing(set()))
    assert {"trl", "torch", "rich", "markdown-it-py"} <= everything
    without = set(pack.missing({"torch", "transformers", "rich"}))
    assert "trl" in without
    assert not without & {"torch", "rich", "markdown-it-py"}


def test_runs_side_by_side_are_counted_and_stopped_when_time_is_up():
    commands = [[sys.executable, "-c", code] for code in ("pass", "raise SystemExit(1)", "pass")]
    assert run.side_by_side(iter(commands), 2, time.monotonic() + 60, {}) == (2, 1)
    endless = [[sys.executable, "-c", "import time; time.sleep(600)"]]
    assert run.side_by_side(iter(endless), 2, time.monotonic() + 0.5, {}) == (0, 0)


def test_cases_without_a_row_come_seed_by_seed_and_round_by_round():
    rows = [
        {"pool": "a", "method": "x", "seed": seed, "device": name} for seed, name in ((1, device()), (2, "-"))
    ]
    assert cases(rows, (1, 2), (("x", "y"), ("z",)), ("a", "b")) == [
        *[("a", "y", 1), ("b", "x", 1), ("b", "y", 1), ("a", "z", 1), ("b", "z", 1)],
        *[("a", "x", 2), ("a", "y", 2), ("b", "x", 2), ("b", "y", 2), ("a", "z", 2), ("b", "z", 2)],
    ]


def test_long_prompts_stand_behind_solved_problems(tmp_path):
    lines = [f'{{"prompt": "{number} plus 1 is", "answer": "{number + 1}"}}' for number in range(42)]
    (tmp_path / f"{run.POOL}.jsonl").write_text("\n".join(lines) + "\n")
    first, _ = Path(run.long_prompts(tmp_path)).read_text().splitlines()
    assert '"0 plus 1 is 1\\n\\n1 plus 1 is 2' in first
    assert '40 plus 1 is", "answer": "41"' in first


def test_pairs_at_the_higher_rate_come_first_and_then_baselines():
    every = list(run.orders())
    assert every[0] == ("mixture_sixteen", ("uniform-1e-5", "frontier-1e-5"), 11)
    assert [seed for _, _, seed in every[:28:7]] == [11, 12, 13, 14]
    assert {methods for _, methods, _ in every[28:]} == {("shortest-quarter", "pspo")}
    assert len(every) == 2 * 4 * len(natures.JUDGING)
    assert {method for _, methods, _ in every for method in methods} <= set(natures.METHODS)


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A kit that nothing is missing from but a tiny model and a pool, and smaller runs."""
    write_tiny_gguf(tmp_path / "tiny.Q8_0.gguf")
    data = tmp_path / "data"
    data.mkdir()
    for name in (run.POOL, f"{run.POOL}.held-out"):
        lines = [json.dumps({"prompt": f"{i} + 1 =", "answer": str(i + 1), "kind": "sum"}) for i in range(48)]
        (data / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    there = [f"{name} {version}" for name, version in pack.missing(set()).items()]
    (tmp_path / "packages.txt").write_text("\n".join(there))
    pack.main(tmp_path / "kit", tmp_path / "tiny.Q8_0.gguf", tmp_path / "packages.txt", data)
    settings = natures.settings_of
    few = {"rollouts": 64, "eval_every": 1, "eval_prompts": 4, "eval_samples": 1}
    monkeypatch.setattr(natures, "settings_of", lambda folder, pool: settings(folder, pool) | few)
    monkeypatch.setattr(run, "STEPS", 4)
    monkeypatch.setattr(run, "EXAMPLES", 2)
    monkeypatch.setitem(run.LONG, "max_completion_length", 8)
    for name in [name for name in run.MEASURED if name.startswith("long")]:
        monkeypatch.setitem(run.MEASURED, name, run.MEASURED[name] | run.LONG)
    for name in ("select", "observe"):  # which a measurement leaves timed
        monkeypatch.setattr(Curriculum, name, getattr(Curriculum, name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "kit"


def run_here(commands, jobs, until, environment):
    """`side_by_side` in this process, which has imported torch."""
    modules, count = {"benchmarks.gpu.run": run, natures.__name__: natures}, 0
    for python, flag, module, *arguments in commands:
        assert (python, flag) == (sys.executable, "-m")
        app = typer.Typer(pretty_exceptions_enable=False)
        app.command()(modules[module].main)
        CliRunner().invoke(app, arguments, catch_exceptions=False)
        count += 1
    return count, 0


def test_a_kit_makes_runs_and_measurements_and_none_twice(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "side_by_side", run_here)
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("CURRO_VERSION", (packed / "version").read_text())
    order = (run.POOL, ("uniform-1e-5", "frontier-1e-5"), 11)
    monkeypatch.setattr(run, "orders", lambda: iter([order]))
    out = tmp_path / "out"
    run.main(packed, out)
    (file,) = (out / "rows").glob("*.jsonl")
    rows = list(read_rows(file))
    assert [(row["method"], row["seed"], row["learning_rate"]) for row in rows] == [
        ("uniform-1e-5", 11, 1e-5),
        ("frontier-1e-5", 11, 1e-5),
    ]
    assert {len(row["pass@1"]) for row in rows} == {3}
    measured = list(read_rows(out / "gpu.jsonl"))
    assert [row["name"] for row in measured] == list(run.MEASURED)
    assert all(row["step_seconds"] > row["select_seconds"] > 0 for row in measured)
    assert all(0 < row["mean_tokens"] <= 8 for row in measured)
    assert "1 runs ended and 0 failed" in capsys.readouterr().out

    run.main(packed, out)
    assert "0 runs ended and 0 failed" in capsys.readouterr().out
    assert len(list(read_rows(out / "gpu.jsonl"))) == len(measured)

"""The run folder: what is written comes back, whatever interrupts the writing."""

import math
import shutil

import numpy as np
import pytest

from curro import Curriculum, CurroError
from curro.core.errors import RunError
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "runs" / "first", {"seed": 3, "curriculum": {"selection": "uniform"}})


def test_a_run_reopens_with_what_it_was_started_with(run):
    assert RunFolder.open(run.path).config == {"seed": 3, "curriculum": {"selection": "uniform"}}
    assert (RunFolder.open(run.path).metrics(), RunFolder.open(run.path).groups()) == ([], [])


def test_an_empty_folder_can_be_used_and_a_used_one_or_a_file_cannot(tmp_path):
    (tmp_path / "empty").mkdir()
    RunFolder.create(tmp_path / "empty", {})
    with pytest.raises(RunError, match=r"is not an empty folder: choose another one with --out$"):
        RunFolder.create(tmp_path / "empty", {})
    RunFolder.create(tmp_path / "killed", {"settings": {}})  # in its first step, of which nothing is written
    with pytest.raises(RunError, match=r"or continue its run with --resume .*killed$"):
        RunFolder.create(tmp_path / "killed", {})
    for begin, name in ((RunFolder.create, "config.json"), (EstimateFolder.begin, "estimate.json")):
        (tmp_path / "cut" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cut" / f".{name}.999999999.part").write_text("{")  # killed as it began
        begin(tmp_path / "cut", {})
        shutil.rmtree(tmp_path / "cut")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file exists"):
        RunFolder.create(tmp_path / "file", {})


def test_what_is_no_run_is_said_in_one_sentence(tmp_path):
    assert issubclass(RunError, CurroError)
    with pytest.raises(RunError, match="there is no such folder"):
        RunFolder.open(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"no config\.json"):
        RunFolder.open(tmp_path)
    (tmp_path / "config.json").write_text('{"seed": ')
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        _ = RunFolder.open(tmp_path).config


def test_metrics_come_back_with_nan_for_what_was_not_finite(run):
    run.append_metrics({"step": 1, "reward": np.float32(0.5), "priority": np.nan, "top": math.inf})
    run.append_metrics({"step": np.int64(2), "eval/pass@1": 0.25})
    first, second = run.metrics()
    assert (first["step"], first["reward"]) == (1, 0.5)
    assert math.isnan(first["priority"])
    assert math.isnan(first["top"])
    assert second == {"step": 2, "eval/pass@1": 0.25}
    assert "NaN" not in (run.path / "metrics.jsonl").read_text()


def test_keys_of_any_text_come_back(run):
    keys = ["a\nb", "\u2028\u0085", "\ud800", '"}', "x" * 1000]
    run.append_groups({"step": 1, "key": key, "admitted": np.bool_(True)} for key in keys)
    assert [row["key"] for row in run.groups()] == keys
    assert run.groups()[0]["admitted"] is True


@pytest.mark.parametrize("steps", [[], [1, 2]])
def test_a_half_written_line_is_passed_over_and_replaced(run, steps):
    run.append_groups({"step": step} for step in steps)
    with (run.path / "groups.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "key": "cut of')
    assert [row["step"] for row in run.groups()] == steps
    run.append_groups([{"step": 4}])
    assert [row["step"] for row in run.groups()] == [*steps, 4]


def test_a_resumed_run_forgets_later_steps(run):
    for step in range(1, 6):
        run.append_metrics({"step": step, "loss": math.nan})
        run.append_groups([{"step": step, "prompt": p} for p in range(2)])
    run.truncate_after(3)
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
    assert [row["step"] for row in run.groups()] == [1, 1, 2, 2, 3, 3]
    assert math.isnan(run.metrics()[0]["loss"])
    assert sorted(path.name for path in run.path.iterdir()) == [
        ".lock",
        "config.json",
        "groups.jsonl",
        "metrics.jsonl",
    ]


def test_the_table_comes_back_with_its_fingerprint(run):
    curriculum = Curriculum("prioritized-replay", ["a", "b", "c"], seed=1)
    draw = curriculum.select(2, step=0)
    curriculum.observe(draw.tickets, [[0, 1], [1, 1]])
    run.write_table(curriculum.table)
    table = run.table()
    assert table.schema.metadata[b"curro.fingerprint"] == curriculum.table.fingerprint.encode()
    assert table["key"].to_pylist() == ["a", "b", "c"]
    assert sum(table["visits"].to_pylist()) == 2


def test_an_interrupted_save_leaves_the_table_that_was_there(run):
    run.write_table(Curriculum("uniform", 3).table)

    class Broken:
        def to_arrow(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.write_table(Broken())
    assert run.table().num_rows == 3
    assert not list(run.path.glob(".*.part"))


def test_a_missing_or_damaged_table_is_said(run):
    with pytest.raises(RunError, match="no prompt table yet"):
        run.table()
    (run.path / "table.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(RunError, match=r"table\.parquet is damaged"):
        run.table()

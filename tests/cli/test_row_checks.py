"""Whether a reward fits a data set: by `curro doctor`, and before a run."""

from __future__ import annotations

import json

import pytest


@pytest.fixture(autouse=True)
def data(tmp_path):
    rows = [{"question": f"{i}?", "answer": str(i), "source": "odd" if i % 2 else "even"} for i in range(8)]
    rows.append({"question": "Prove it.", "answer": "proof", "source": "odd"})
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "scored_here.py").write_text("def half(completion, row): return 0.5\n")


def test_the_doctor_names_rows_by_source(curro):
    said = curro("doctor", "rows.jsonl", "--reward", "exact")
    assert "reward 'exact' on 9 of 9 rows: 0 do not fit, 1 cannot be scored" in said
    assert "odd: 0 of 5 wrong, 1 unscored" in said
    said = curro("doctor", "rows.jsonl", "--reward", "function-calls", status=1)
    assert "row " in said
    assert "cannot be read" in said
    said = curro("doctor", "rows.jsonl", "--reward", "scored_here:half")
    assert "an empty completion scores as much as the answer in 8 rows" in said


def test_a_run_whose_reward_does_not_fit_ends_before_it_begins(curro, tmp_path):
    run = ("train", "--data", "rows.jsonl", "--model", "lab:chains", "--out", "run")
    said = curro(*run, "--reward", "function-calls", status=2)
    assert "does not fit 8 of 9 rows, such as row 0 (even)" in said
    assert "--no-check" in said
    assert not (tmp_path / "run").exists()

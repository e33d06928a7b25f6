"""`curro evaluate`: models on a data set and on suites, here and on a server, gone on with and printed."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from tests.rollout.server_setup import FakeServer

from curro import lab
from curro.data import load_prompts
from curro.rollout.evaluation_results import pass_at_k
from curro.runs.estimate_folder import EstimateFolder

CHAINS = ["--suite", "lab:chains", "--limit", "12", "-k", "4", "--out", "out"]


def rows_of(path):
    return [json.loads(line) for line in (path / "groups.jsonl").read_text().splitlines()]


def test_two_models_in_one_table(curro, tmp_path):
    model, tokenizer = lab.load("chains")
    other = tmp_path / "<b>copy</b>"
    model.save_pretrained(other)
    tokenizer.save_pretrained(other)
    rows = list(load_prompts("lab:chains", split="test", limit=12))
    (tmp_path / "chains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = ["--data", "chains.jsonl", "--reward", "lab:chains", "--max-completion-length", "16", "-k", "4"]
    said = curro("evaluate", "lab:chains", "<b>copy</b>", *data)
    folder = EstimateFolder.open(tmp_path / "evaluations" / "chains-jsonl-lab-chains")
    table = folder.table()
    assert table["key"].to_pylist() == [row["key"] for row in rows]
    correct = table["correct"].to_numpy()
    np.testing.assert_allclose(correct / 4, table["mean"].to_numpy())
    assert (folder.settings["temperature"], folder.settings["top_p"]) == (0.6, 0.95)
    for k in (1, 4):
        assert f"{pass_at_k(correct, 4, k):.3f}".removeprefix("0") in said
    assert said.count("<b>copy</b>") >= 2


def test_gone_on_with_where_it_stopped(curro, tmp_path):
    curro("evaluate", "lab:chains", *CHAINS)
    folder = tmp_path / "out" / "lab-chains-lab-chains"
    rows = rows_of(folder)
    rows[1]["rollouts"] = 3  # a sample failed: the problem is asked again
    kept = "".join(json.dumps(row) + "\n" for row in rows[:5])
    (folder / "groups.jsonl").write_text(kept + '{"prompt": 9, "k')
    said = curro("evaluate", "lab:chains", *CHAINS)
    again = rows_of(folder)
    assert again[:5] == rows[:5]
    assert sorted(row["prompt"] for row in again[5:]) == sorted(
        [rows[1]["prompt"], *(r["prompt"] for r in rows[5:])]
    )
    times = (folder / "groups.jsonl").stat().st_mtime_ns
    assert curro("evaluate", "lab:chains", *CHAINS) == said[said.index("Accuracy") :]
    assert (folder / "groups.jsonl").stat().st_mtime_ns == times, "nothing was left to sample"
    said = curro("evaluate", "lab:chains", *CHAINS, "--temperature", "1", status=2)
    assert "(temperature was 0.6, is 1.0)" in said


def test_samples_are_right_by_the_part_that_verifies(curro, tmp_path):
    """Less half a point for every completion, no sum would be that of success."""
    curro("evaluate", "lab:chains", *CHAINS)
    plain = rows_of(tmp_path / "out" / "lab-chains-lab-chains")
    (tmp_path / "shaped.py").write_text("def one(completions, **_):\n    return [1.0 for _ in completions]\n")
    shaped = ["--reward", "lab:chains+-0.5*./shaped.py:one", "--out", "shaped"]
    said = curro("evaluate", "lab:chains", *CHAINS, *shaped)
    assert "scored by lab:chains, the part of the reward that verifies the answer" in said
    assert rows_of(tmp_path / "shaped" / "lab-chains-lab-chains") == plain
    assert sum(row["correct"] for row in plain) > 0


def test_a_suite_from_a_file_by_a_server(curro, tmp_path):
    rows = [{"problem": f"What is {i}?", "answer": str(i), "level": 1 + i % 2} for i in (40, 41, 40, 42)]
    (tmp_path / "math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fake = FakeServer()
    arguments = ["--suite", "MATH-500", "--data", "math.jsonl", "-k", "2"]
    with fake.running() as url:
        said = curro("evaluate", "tiny", *arguments, "--server", url)
    table = EstimateFolder.open(tmp_path / "evaluations" / "MATH-500-tiny").table()
    assert table["correct"].to_pylist() == [2, 0, 2, 0]
    assert fake.requests[-1]["messages"][0]["content"].startswith("What is")
    assert {body["top_p"] for body in fake.requests} == {0.95}
    assert {body["temperature"] for body in fake.requests} == {0.6}
    assert "0.500 (0.150 to 0.850)" in said, "Wilson's interval of 2 of 4 problems"


def test_episodes_are_played(curro, tmp_path):
    """The warm model opens some locks, and goes on where it stopped."""
    arguments = ["--suite", "lab:locks", "--limit", "8", "-k", "4", "--batch", "16", "--temperature", "1"]
    curro("evaluate", "lab:locks", *arguments)
    folder = tmp_path / "evaluations" / "lab-locks-lab-locks"
    rows = rows_of(folder)
    assert len(rows) == 8
    assert 0 < sum(row["correct"] for row in rows) < 32
    (folder / "groups.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    curro("evaluate", "lab:locks", *arguments)
    assert [row["correct"] for row in rows_of(folder)] == [row["correct"] for row in rows]
    said = curro("evaluate", "m", *arguments, "--server", "http://localhost:1", status=2)
    assert "a server answers in one turn" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--suite AIME24 --suite AIME25 --data x.jsonl", "name one --suite"),
        ("--suite AIME24 --answer-column a", "the suite AIME24 knows its columns"),
        ("--suite AIME24 --data none.jsonl", "there is no file or folder 'none.jsonl'"),
        ("--suite lab:chains --limit 2 --environment bfcl --reward math", "leave out the reward 'math'"),
        ("--suite lab:chains --top-p 2 --limit 2", "top_p is a number above 0"),
    ],
)
def test_mistakes(curro, arguments, sentence):
    assert sentence in curro("evaluate", "lab:chains", *shlex.split(arguments), status=2)

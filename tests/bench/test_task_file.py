"""Tasks of one's own: read from a file, planned with their settings, and run."""

import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from curro import lab
from curro.bench.plan import plan
from curro.bench.task_file import read_tasks
from curro.data import load_prompts
from curro.errors import ConfigError

TASK = """
["sums/hard"]
data = "sums.jsonl"
eval_data = "held_out.jsonl"
model = "model"
reward = "exact"
reward_range = [0, 1]
learning_rate = 1e-4
rollouts = 64
prompts_per_step = 4
max_completion_length = 8
"""


def written(folder, text):
    path = folder / "tasks.toml"
    path.write_text(text)
    return path


def test_a_task_by_hand(tmp_path):
    tasks = read_tasks(written(tmp_path, TASK + 'judge = "exemplars=3"\n["sums/easy"]\ndata = "e"\n'
                               "learning_rate = 1\nrollouts = 32\njudge = false\n"))  # fmt: skip
    cells = plan(None, ["METIS"], seeds=1, known=tasks)
    assert [(cell.task.name, cell.method.name) for cell in cells] == [
        ("sums/hard", "uniform"),
        ("sums/hard", "METIS"),
    ]
    assert cells[1].flags(evaluations=2, eval_prompts=9) == [
        "--data=sums.jsonl", "--curriculum=metis:exemplars=3", "--learning-rate=0.0001",
        "--prompts-per-step=4", "--rollouts-per-prompt=8", "--rollouts=64", "--eval-every=1",
        "--eval-prompts=9", "--save-every=20", "--seed=0", "--model=model", "--eval-data=held_out.jsonl",
        "--reward=exact", "--reward-range=0,1", "--max-completion-length=8",
    ]  # fmt: skip
    assert tasks["sums/easy"].pool == "easy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "cannot be read"),
        ("", "has no tasks"),
        ("[sums]\ndata = 'a'", "a task is a table"),
        ("'a/b' = 3", "a task is a table"),
        ("['a/b']\ndata = 'a'\nrollouts = 8", "lacks learning_rate"),
        (TASK + "rollout = 8", r"no setting 'rollout' \(did you mean 'rollouts'\?\)"),
        (TASK.replace("rollouts = 64", "rollouts = 'many'"), "rollouts is not 'many'"),
        (TASK.replace("rollouts = 64", "rollouts = true"), "rollouts is not True"),
    ],
)
def test_mistakes(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_tasks(written(tmp_path, text))


def test_no_such_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tasks(tmp_path / "none.toml")


def test_a_model_and_data_of_ones_own_are_run(tmp_path):
    model, tokenizer = lab.load("chains")
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = [
        json.dumps({"prompt": row["prompt"], "answer": row["answer"]})
        for row in load_prompts("lab:chains", limit=48)
    ]
    (tmp_path / "sums.jsonl").write_text("\n".join(rows[:32]))
    (tmp_path / "held_out.jsonl").write_text("\n".join(rows[32:]))
    written(tmp_path, TASK + "judge = false")
    said = subprocess.run(
        [
            sys.executable, "-m", "curro", "bench", "--task-file", "tasks.toml", "--method", "frontier",
            "--seeds", "2", "--tune", "0.5", "--eval-prompts", "8", "--out", "results",
        ],
        cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}, timeout=600,
        capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    found = pq.read_table(tmp_path / "results" / "results.parquet").to_pylist()
    made = {(row["method"], row["seed"], row["rate"]) for row in found}
    tried = {(name, seed, 1) for name in ("uniform", "frontier") for seed in (0, 1)}
    assert made >= tried | {("uniform", 0, 0.5), ("frontier", 0, 0.5)}
    assert "sums/hard, learning rate tuned for each method" in said.stdout
    assert len(pq.read_table(tmp_path / "results" / "pools" / "sums-hard.parquet")) == 32

"""Tasks of one's own: read from a file, planned with their settings, and run."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks.bench.__main__ import bench
from benchmarks.bench.plan import plan
from benchmarks.bench.tasks import read_tasks

from curro import lab
from curro.core.errors import ConfigError
from curro.data import load_prompts

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


def changed(key, value):
    lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in TASK.splitlines()]
    return "\n".join(lines)


def written(folder, text):
    path = folder / "tasks.toml"
    path.write_text(text)
    return path


def test_a_task_by_hand(tmp_path):
    easy = '["sums/easy"]\ndata = "lab:chains"\nlearning_rate = 1\nrollouts = 32\njudge = false\n'
    tasks = read_tasks(written(tmp_path, TASK + 'judge = "exemplars=3"\n' + easy))
    cells = plan(None, ["METIS"], seeds=1, available=tasks)
    assert [(cell.task.name, cell.method.name) for cell in cells] == [
        ("sums/hard", "uniform"),
        ("sums/hard", "METIS"),
    ]
    assert cells[1].flags(evaluations=2, eval_prompts=9) == [
        "--data=sums.jsonl", "--curriculum=metis:exemplars=3", "--learning-rate=0.0001",
        "--prompts-per-step=4", "--rollouts-per-prompt=8", "--rollouts=64", "--eval-every=1",
        "--eval-prompts=9", "--save-every=1", "--seed=0", "--model=model", "--eval-data=held_out.jsonl",
        "--reward=exact", "--reward-range=0,1", "--max-completion-length=8",
    ]  # fmt: skip
    names = [cell.method.name for cell in plan(["sums/easy"], None, seeds=1, available=tasks)]
    assert names.count("METIS") == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "TOML"),
        ("", "has no tasks"),
        ("[sums]\ndata = 'a'", "a task is a table"),
        ("'a-b/c' = {}", "in letters and digits"),
        ("['a/b']\ndata = 'a'\nrollouts = 8", "learning_rate, model, eval_data"),
        (TASK + "rollout = 8", "rollouts"),
        (changed("rollouts", "'many'"), "rollouts"),
        (changed("rollouts", "31"), "step of 32"),
        (changed("reward_range", "[0, true]"), "reward_range"),
        (TASK + "device_batch = 3", "device_batch"),
    ],
)
def test_mistakes(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_tasks(written(tmp_path, text))


def test_the_example_of_the_documentation(tmp_path):
    page = (Path(__file__).parents[2] / "benchmarks" / "bench" / "README.md").read_text()
    text = page[page.index('["gsm8k/hard"]') :].partition("```")[0]
    (task,) = read_tasks(written(tmp_path, text)).values()
    assert task.step == 128


def test_a_model_and_data_of_ones_own_are_run(tmp_path, monkeypatch):
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
    monkeypatch.chdir(tmp_path)
    bench(task_file=Path("tasks.toml"), method=["uniform"], seeds=1, eval_prompts=8, out=Path("results"))
    found = pq.read_table(tmp_path / "results" / "results.parquet").to_pylist()
    assert [(row["method"], row["seed"], row["rate"]) for row in found] == [("uniform", 0, 1.0)]
    assert len(pq.read_table(tmp_path / "results" / "pools" / "sums-hard.parquet")) == 32

"""The benchmark of pretrained models writes tasks that the benchmark reads, and foretells its hours."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.bench.plan import METHODS
from benchmarks.bench.tasks import read_tasks
from benchmarks.learning import gpu


def test_its_tasks_are_tasks_of_the_benchmark(tmp_path):
    task = gpu.task_of("some/model", Path("a.jsonl"), Path('b "quoted".jsonl'), length=512, rollouts=1280)
    (tmp_path / "tasks.toml").write_text(gpu.toml_of({"gsm8k_model/hard": task}))
    (read,) = read_tasks(tmp_path / "tasks.toml").values()
    assert (read.name, read.data, read.rollouts, read.step) == ("gsm8k_model/hard", "a.jsonl", 1280, 128)
    assert dict(read.train)["eval_data"] == 'b "quoted".jsonl'
    assert set(gpu.METHODS) <= set(METHODS)


def test_hours_are_those_of_all_runs():
    """Four methods of 3 seeds make 12 runs of 10 steps; at 30 s a step that is an hour."""
    task = gpu.task_of("some/model", Path("a"), Path("b"), length=512, rollouts=1280)
    assert gpu.hours(task, 30.0, 3, tune=False) == pytest.approx(1.0)
    assert gpu.hours(task, 30.0, 3, tune=True) == pytest.approx(3.2)

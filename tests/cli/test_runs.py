"""Real runs of the commands: trained, interrupted, resumed, compared, shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SMALL = [
    "--data",
    "lab:chains",
    "--limit",
    "60",
    "--prompts-per-step",
    "4",
    "--eval-prompts",
    "20",
    "--eval-every",
    "10",
]


def curro(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "curro", *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(run: Path) -> list[dict[str, float]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_interrupted_and_resumed(tmp_path):
    run = tmp_path / "run"
    process = curro("train", *SMALL, "--rollouts", "1920", "--out", "run", folder=tmp_path)
    deadline = time.monotonic() + 120
    while len(lines(run)) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    assert "saved; go on with: curro train --resume run" in said
    stopped = lines(run)[-1]["step"]
    assert 7 <= stopped < 60
    said = curro("train", "--resume", "run", folder=tmp_path).communicate(timeout=300)[0]
    assert "done: model, table and report are in run" in said
    assert [line["step"] for line in lines(run)] == list(range(61))
    assert lines(run)[-1]["rollouts"] == 1920
    assert lines(run)[-1]["observed"] == 240
    assert {"model", "table.parquet", "report.html", "config.json"} <= {path.name for path in run.iterdir()}
    said = curro("inspect", "run", "--rows", "3", folder=tmp_path).communicate(timeout=60)[0]
    assert "60 prompts" in said


def test_rewards_that_are_all_equal_stop_the_run(tmp_path):
    (tmp_path / "never.py").write_text("def right(completion, row):\n    return 0.0\n")
    process = curro("train", *SMALL, "--reward", "never:right", "--out", "run", folder=tmp_path)
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 2
    assert "all 640 rewards of the first 20 steps are 0.0: nothing can be learnt" in said


def test_compared(tmp_path):
    process = curro("compare", *SMALL, "--rollouts", "640", "--out", "both", folder=tmp_path)
    said = process.communicate(timeout=300)[0]
    assert process.returncode == 0, said
    assert "uniform" in said
    assert "frontier" in said
    page = tmp_path / "both" / "report.html"
    assert page.stat().st_size > 10_000
    page.unlink()
    process = curro("compare", *SMALL, "--rollouts", "640", "--out", "both", folder=tmp_path)
    assert process.communicate(timeout=300)[0].splitlines()[-1] == "report: both/report.html"
    assert page.exists()
    flags = ["--rollouts", "640", "--out", "both", "--temperature", "0.5"]
    process = curro("compare", *SMALL, *flags, folder=tmp_path)
    said = " ".join(process.communicate(timeout=300)[0].split())
    assert process.returncode == 2
    assert "holds another run (--temperature was 1.0, is 0.5): choose another folder with --out" in said


def test_admission_fills_every_step_and_the_budget_counts_all_rollouts(tmp_path):
    run = tmp_path / "run"
    flags = ["--curriculum", "pspo advantage=smoothed", "--admission", "signal", "--rollouts", "1280"]
    said = curro("train", *SMALL, *flags, "--out", "run", folder=tmp_path).communicate(timeout=300)[0]
    assert "done: model, table and report are in run" in said
    steps = lines(run)[1:]
    batch = 4 * 8
    assert all(line["admitted"] == 4 * line["step"] for line in steps)
    assert steps[-1]["rollouts"] == 8 * steps[-1]["observed"]
    assert 1280 <= steps[-1]["rollouts"] < 1280 + 10 * batch
    assert len(steps) < 1280 / batch
    assert "eval/pass@1" in steps[-1]
    config = json.loads((run / "config.json").read_text())["curriculum"]
    assert config["admission"] == {"name": "signal"}
    assert config["advantage"] == {"name": "smoothed"}

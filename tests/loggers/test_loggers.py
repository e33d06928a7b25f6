"""Metrics reach the real loggers, offline, under the names `curriculum/...`; make loggers."""

import json
import os
import sqlite3
import subprocess
import sys

from tests.forks import python

NAMES = ("curriculum/table/learnable", "curriculum/easy/pass_rate", "curriculum/a-b/share")


def trained(folder, log):
    """Three steps of a run on two sources, with this logger."""
    rows = [
        {"prompt": f"{i}=", "answer": str(i % 10), "key": str(i), "source": ("easy", "a/b")[i % 2]}
        for i in range(8)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # trackio reads its folder when it is imported, which forks have done
    program = sys.executable if log == "trackio" else python()
    command = [
        *(program, "-m", "curro", "train", "--data", "data.jsonl", "--model", "lab:chains"),
        *("--reward", "exact", "--curriculum", "uniform", "--rollouts", "24", "--prompts-per-step", "4"),
        *("--rollouts-per-prompt", "2", "--max-completion-length", "4", "--log", log, "--out", "tries/first"),
    ]
    offline = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **offline}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trained(tmp_path, "tensorboard")
    (events,) = (tmp_path / "tries" / "first" / "tensorboard").glob("events.out.tfevents*")
    found = EventAccumulator(str(events)).Reload()
    for name in NAMES:
        assert len(found.Scalars(f"train/{name}")) == 3
    shares = [one.value for one in found.Scalars("train/curriculum/a-b/share")]
    assert all(0 < share < 1 for share in shares)


def test_wandb(tmp_path):
    (written,) = trained(tmp_path, "wandb").rglob("run-*.wandb")
    for name in (*NAMES, "tries", "first"):
        assert name.encode() in written.read_bytes()


def test_trackio(tmp_path):
    trained(tmp_path, "trackio")
    (database,) = (tmp_path / "trackio").rglob("*.db")
    assert database.stem == "tries"
    with sqlite3.connect(database) as connection:
        lines = [json.loads(row[0]) for row in connection.execute("SELECT metrics FROM metrics")]
        runs = {row[0] for row in connection.execute("SELECT run_name FROM metrics")}
    connection.close()
    assert runs == {"first"}
    for name in NAMES:
        assert sum(f"train/{name}" in line for line in lines) == 3

"""`curro train` as a person meets it: exit statuses, what an interrupt says, what --resume takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from curro.cli import main
from curro.runs import RunFolder

SMALL = ["--data", "lab:chains", "--limit", "40", "--prompts-per-step", "4", "--eval-prompts", "4"]


@pytest.fixture
def mistake(monkeypatch, capsys, tmp_path):
    """Run `curro train ARGUMENTS` in an empty folder; returns the sentence that it ended with."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["curro", "train", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert not (tmp_path / "runs").exists()
        return capsys.readouterr().err.strip()

    return run


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--temperature", "0"], "temperature is a number above 0 and finite, not 0.0"),
        (["--temperature", "nan"], "temperature is a number above 0 and finite, not nan"),
        (["--learning-rate", "inf"], "learning_rate is a number above 0 and finite, not inf"),
        (["--seed", "-1"], "seed is a number from 0 to 4294967295, not -1"),
        (["--seed", "4294967296"], "seed is a number from 0 to 4294967295, not 4294967296"),
        (["--eval-every", "-1"], "eval_every is a number of steps, or 0, not -1"),
        (["--reward-range", "1"], "--reward-range is two numbers, LOW,HIGH, not '1'"),
        (["--reward-range", "a,b"], "--reward-range is two numbers, LOW,HIGH, not 'a,b'"),
        (
            ["--reward-range", "1,-1"],
            "reward_range is (failure, success) with failure < success, not (1.0, -1.0)",
        ),
    ],
)
def test_wrong_values(mistake, arguments, sentence):
    assert mistake(*SMALL, *arguments) == f"curro: {sentence}"


def test_other_options_beside_resume(mistake):
    said = mistake("--resume", "somewhere", "--rollouts", "25600", "--data=nonsense")
    assert said == (
        "curro: --resume goes on with the settings that the run was started with: "
        "leave out --rollouts, --data, or start another run with --out"
    )


def test_interrupted_resumed_and_resumed_again(tmp_path):
    def curro(*arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "curro", "train", *arguments],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    metrics = tmp_path / "run" / "metrics.jsonl"
    process = curro(*SMALL, "--rollouts", "960", "--eval-every", "0", "--reward-range=-1,1", "--out", "run")
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") > 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130
    assert "stopping after this step; a second Ctrl-C stops at once" in said
    assert "saved; go on with: curro train --resume run" in said
    folder = RunFolder.open(tmp_path / "run")
    assert folder.config["settings"]["reward_range"] == folder.config["curriculum"]["reward_range"] == [-1, 1]
    for note in ("done: ", "the run is complete: there is nothing left to train"):
        process = curro("--resume", "run")
        said = process.communicate(timeout=300)[0]
        assert process.returncode == 0
        assert note in said
        assert [json.loads(line)["step"] for line in metrics.read_text().splitlines()] == list(range(31))

"""A run folder from elsewhere names code: nothing of it runs before the user says so."""

from __future__ import annotations

import sys

import pytest
from tests.in_process import run_command

from curro.core.errors import ConfigError
from curro.training import trust
from curro.training.settings import TrainSettings

REWARD = "def score(completion, row):\n    return float(len(completion) % 2)\n"
TRAP = "open('EXECUTED', 'w')\n" + REWARD


def settings(**values):
    return TrainSettings(**{"data": "lab:chains"} | values)


@pytest.fixture(autouse=True)
def _folders(tmp_path, monkeypatch):
    """A working directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({}, []),
        ({"curriculum": "frontier", "admission": "band:0.3,0.7", "reward": "math+0.2*format"}, []),
        ({"reward": "lab:chains", "environment": "bfcl:partial=true"}, []),
        ({"curriculum": "mine:Mine:a=1"}, ["mine:Mine"]),
        ({"curriculum": "uniform admission=mine:Gate:0.5"}, ["mine:Gate"]),
        ({"allocation": "mine:Rule", "advantage": "./a/mine.py:Credit"}, ["mine:Rule", "./a/mine.py:Credit"]),
        ({"curriculum": "metis:strip=mine:strip"}, ["mine:strip"]),
        ({"curriculum": "pspo:mine:hidden"}, ["mine:hidden"]),
        ({"reward": "mine:f:path=x"}, ["mine:f"]),
        ({"reward": "math + 0.5*./mine.py:f + 2e-1*other:g"}, ["./mine.py:f", "other:g"]),
        ({"environment": "mine:make:turns=3"}, ["mine:make"]),
        ({"reward": "code:sandbox=none"}, [trust.UNCONFINED]),
        ({"reward": "math+code:true,1.0,6.0,64,1,none"}, [trust.UNCONFINED]),
        ({"sandbox": "none"}, [trust.UNCONFINED]),
        ({"reward": "code:sandbox=required"}, []),
        ({"data": "verifiers:owner/My-Tasks@1"}, ["my_tasks:Taskset"]),
        ({"eval_data": "MATH-500, verifiers:mine"}, ["mine:Taskset"]),
        ({"reward": "verifiers:mine"}, ["mine:Taskset"]),
        ({"reward": "0.5*verifiers:o/my-tasks + format"}, ["my_tasks:Taskset"]),
    ],
)
def test_what_names_code(values, code):
    assert trust.code_of(settings(**values)) == code


def test_the_code_is_named_and_not_run(tmp_path):
    (tmp_path / "work" / "mine.py").write_text(TRAP)
    with pytest.raises(ConfigError, match=r"^run names code of its own, 'mine:score': add --trust"):
        trust.check(settings(reward="mine:score:a=1"), "run")
    assert not (tmp_path / "work" / "EXECUTED").exists()
    trust.check(settings(), "run")
    assert trust.resume_command(settings(), "my run") == "curro train --resume 'my run'"
    assert trust.resume_command(settings(sandbox="none"), "run") == "curro train --resume run --trust"


def test_the_commands_ask_before_anything_of_the_folder_runs(tmp_path):
    work = tmp_path / "work"
    (work / "own_reward.py").write_text(REWARD)
    start = ["--data", "lab:chains", "--limit", "8", "--rollouts", "8", "--prompts-per-step", "1"]
    start += ["--eval-every", "0", "--eval-prompts", "1", "--eval-samples", "1", "--reward-workers", "0"]
    run_command("train", *start, "--reward", "./own_reward.py:score", "--out", "run", folder=work)
    (work / "own_reward.py").write_text(TRAP)
    commands = [["train", "--resume", "run"], ["train", "--config", "run"]]
    commands += [["train", "--config", "run/config.json", "--seed", "1"], ["compare", "--config", "run"]]
    for command in commands:
        said = run_command(*command, folder=work, status=2)
        assert said.startswith("curro: run")
        assert "names code of its own, './own_reward.py:score'" in said
        assert "--trust" in said
    assert not (work / "EXECUTED").exists()
    assert {path.name for path in work.iterdir()} - {"__pycache__"} == {"own_reward.py", "run"}
    assert "complete" in run_command("train", "--resume", "run", "--trust", folder=work)

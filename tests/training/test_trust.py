"""A run folder from elsewhere names code: nothing of it runs before the user says so."""

from __future__ import annotations

import json
import os
import sys

import pytest
from tests.in_process import run_command

from curro.core.errors import ConfigError
from curro.training import trust
from curro.training.settings import TrainSettings

REWARD = "def score(completion, row):\n    return float(len(completion) % 2)\n"
TRAP = "open('EXECUTED', 'w')\n" + REWARD


def settings(**values):
    return TrainSettings(data="lab:chains", **values)


@pytest.fixture(autouse=True)
def _folders(tmp_path, monkeypatch):
    """A working directory and a state folder without any record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
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
    ],
)
def test_what_names_code(values, code):
    assert trust.code_of(settings(**values)) == code


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"data": "verifiers:owner/My-Tasks@1"}, ["my_tasks:Taskset"]),
        ({"data": "lab:chains", "eval_data": "MATH-500, verifiers:mine"}, ["mine:Taskset"]),
        ({"data": "lab:chains", "reward": "verifiers:mine"}, ["mine:Taskset"]),
        ({"data": "lab:chains", "reward": "0.5*verifiers:o/my-tasks + format"}, ["my_tasks:Taskset"]),
    ],
)
def test_packages_of_verifiers_are_code_too(values, code):
    assert trust.code_of(TrainSettings(**values)) == code


def test_only_what_was_noted_is_this_user_s(tmp_path):
    (tmp_path / "work" / "mine.py").write_text(TRAP)
    mine = settings(reward="mine:score:a=1")
    with pytest.raises(
        ConfigError, match=r"^run names code of its own, 'mine:score' \(/.*/work/mine\.py\), and"
    ):
        trust.check(mine, "run")
    trust.note(mine)
    trust.check(mine, "run")
    trust.check(settings(reward="mine:score:a=1", seed=3, rollouts=7), "run")
    for other in ({"reward": "mine:score:a=2"}, {"reward": "mine:other"}, {"sandbox": "none"}):
        with pytest.raises(ConfigError, match="add --trust"):
            trust.check(settings(**{"reward": "mine:score:a=1", **other}), "run")
    assert not (tmp_path / "work" / "EXECUTED").exists()


def test_the_same_name_in_another_folder_is_other_code(tmp_path, monkeypatch):
    for folder in ("work", "elsewhere"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "mine.py").write_text(TRAP)
    every = [settings(reward=spec) for spec in ("mine:score", "./mine.py:score")]
    for mine in every:
        trust.note(mine)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for mine in every:
        with pytest.raises(ConfigError, match=r"elsewhere/mine\.py"):
            trust.check(mine, "run")


def test_a_link_that_is_turned_is_other_code(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(REWARD)
    link = tmp_path / "work" / "mine.py"
    link.symlink_to(tmp_path / "a.py")
    trust.note(settings(reward="./mine.py:score"))
    link.unlink()
    link.symlink_to(tmp_path / "b.py")
    with pytest.raises(ConfigError, match=r"b\.py"):
        trust.check(settings(reward="./mine.py:score"), "run")


@pytest.mark.parametrize("forged", ["link", "folder"])
def test_a_record_is_a_file_of_the_state_folder(tmp_path, forged):
    trust.note(settings(reward="mine:score"))
    (record,) = (tmp_path / "state" / "curro" / "code").iterdir()
    assert record.stat().st_mode & 0o777 == 0o600
    assert record.parent.stat().st_mode & 0o777 == 0o700
    content = record.read_text()
    assert json.loads(content)["settings"]["reward"] == "mine:score"
    record.unlink()
    if forged == "link":
        (tmp_path / "copy").write_text(content)
        record.symlink_to(tmp_path / "copy")
    else:
        record.mkdir()
    with pytest.raises(ConfigError, match="add --trust"):
        trust.check(settings(reward="mine:score"), "run")


def test_a_record_of_another_user_is_none(tmp_path, monkeypatch):
    trust.note(settings(reward="mine:score"))
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(ConfigError, match="add --trust"):
        trust.check(settings(reward="mine:score"), "run")


@pytest.mark.parametrize("state", ["relative", "a/file"])
def test_a_state_folder_that_cannot_be_written_only_asks(tmp_path, monkeypatch, state):
    """A relative one would lie in the working directory, which may be the folder from elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "work" / "home"))
    (tmp_path / "work" / "home").write_text("a file")
    (tmp_path / "work" / "a").write_text("a file")
    monkeypatch.setenv("XDG_STATE_HOME", state if state == "relative" else str(tmp_path / "work" / state))
    trust.note(settings(reward="mine:score"))
    with pytest.raises(ConfigError, match="add --trust"):
        trust.check(settings(reward="mine:score"), "run")
    assert not (tmp_path / "work" / "relative").exists()


def test_the_commands_ask_before_anything_of_the_folder_runs(tmp_path, monkeypatch):
    """A run with a reward of its own: its user resumes it; whoever else gets the folder is asked."""
    work = tmp_path / "work"
    (work / "own_reward.py").write_text(REWARD)
    start = ["--data", "lab:chains", "--limit", "8", "--rollouts", "8", "--prompts-per-step", "1"]
    start += ["--eval-every", "0", "--eval-prompts", "1", "--eval-samples", "1", "--reward-workers", "0"]
    run_command("train", *start, "--reward", "./own_reward.py:score", "--out", "run", folder=work)
    assert "complete" in run_command("train", "--resume", "run", folder=work)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of somebody else"))
    (work / "own_reward.py").write_text(TRAP)
    commands = [["train", "--resume", "run"], ["train", "--resume", "run", "--rollouts", "16"]]
    commands += [["train", "--config", "run"], ["train", "--config", "run/config.json", "--seed", "1"]]
    commands += [["compare", "--config", "run"]]
    for command in commands:
        said = run_command(*command, folder=work, status=2)
        assert said.startswith("curro: run"), said
        assert "names code of its own, './own_reward.py:score' (" in said
        assert said.endswith("add --trust if you know what they do")
    assert not (work / "EXECUTED").exists()
    assert {path.name for path in work.iterdir()} - {"__pycache__"} == {"own_reward.py", "run"}
    assert "complete" in run_command("train", "--resume", "run", "--trust", folder=work)
    assert "complete" in run_command("train", "--resume", "run", folder=work)

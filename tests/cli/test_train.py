"""`curro train` as a person meets it: exit statuses, interrupts, --resume, --config, whole runs."""

from __future__ import annotations

import subprocess

import pytest
from tests.forks import python
from typer.testing import CliRunner

from curro.cli import make_app
from curro.runs.folder import RunFolder

SMALL = ["--data", "lab:chains", "--limit", "40", "--prompts-per-step", "4", "--eval-prompts", "4"]

LONG = ["--rollouts", "320", "--eval-every", "0", "--reward-range=-1,1", "--out", "run"]


def test_other_options_beside_resume(curro):
    said = curro(
        "train", "--resume", "somewhere", "--seed", "1", "--rollouts", "9", "--data=nonsense", status=2
    )
    assert said == (
        "curro: --resume goes on with the settings that the run was started with: "
        "leave out --data, --rollouts, --seed, or start another run with --out"
    )


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory, interrupting):
    """A run of 10 steps that got a Ctrl-C in its second: its folder, exit status and what it said."""
    folder = tmp_path_factory.mktemp("interrupted")
    done = subprocess.run(
        [python(), "-m", "curro", "train", *SMALL, *LONG],
        cwd=folder,
        env=interrupting("curro.runs.folder:RunFolder.append_metrics", 3),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    return folder, done.stdout, done.returncode


def test_an_interrupt_saves_and_says_how_to_go_on(interrupted):
    folder, said, status = interrupted
    assert status == 130
    assert "stopping after this step; a second Ctrl-C stops at once" in said
    assert "saved; go on with: curro train --resume run" in said
    config = RunFolder.open(folder / "run").config
    assert config["settings"]["reward_range"] == config["curriculum"]["reward_range"] == [-1, 1]


def test_a_run_that_was_interrupted_goes_on_to_its_end(interrupted, monkeypatch):
    folder, _, _ = interrupted
    monkeypatch.chdir(folder)
    assert [line["step"] for line in RunFolder.open("run").metrics()] == [0, 1, 2]
    for note in ("done: model, table and report are in run", "the run is complete"):
        done = CliRunner().invoke(make_app(["train"]), ["train", "--resume", "run"])
        assert done.exit_code == 0, done.output
        assert note in " ".join(done.output.split())
        lines = RunFolder.open("run").metrics()
        assert [line["step"] for line in lines] == list(range(11))
    assert (lines[-1]["rollouts"], lines[-1]["observed"]) == (320, 40)
    names = {path.name for path in (folder / "run").iterdir()}
    assert {"model", "table.parquet", "report.html", "config.json"} <= names
    shown = CliRunner().invoke(make_app(["inspect"]), ["inspect", "run", "--rows", "3"])
    assert "Most informative" in shown.output


@pytest.mark.usefixtures("no_pictures")
def test_settings_of_a_file_and_of_a_run(tmp_path, monkeypatch):
    """The command line wins over the file, and a run's folder is such a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(
        'data = "lab:chains"\nlimit = 40\nprompts-per-step = 4\neval-prompts = 2\nrollouts = 32\nseed = 5\n'
    )
    first = CliRunner().invoke(
        make_app(["train"]), ["train", "--config", "run.toml", "--seed", "6", "--out", "a"]
    )
    assert first.exit_code == 0, first.output
    again = ["train", "--config", "a", "--curriculum", "uniform", "--prompts-per-step", "2", "--out", "b"]
    second = CliRunner().invoke(make_app(["train"]), again)
    assert second.exit_code == 0, second.output
    settings = [RunFolder.open(name).settings for name in ("a", "b")]
    assert [one["seed"] for one in settings] == [6, 6]
    assert [one["curriculum"] for one in settings] == ["frontier", "uniform"]
    assert [len(RunFolder.open(name).groups()) for name in ("a", "b")] == [4, 4]

"""What a newcomer mistypes is answered with one clear sentence, and no folder is left behind.

`test_quick_mistakes.py` has those that are answered before torch is imported.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import typer
from tests.in_process import run_command

from curro.cli import make_app
from curro.runs.folder import RunFolder
from curro.training.settings import TrainSettings

CHAINS = [{"prompt": f"{digit}{letter}=", "answer": "5"} for digit in range(3) for letter in "abc"]


OWN = "--model lab:chains --data"


@pytest.fixture
def curro(curro, tmp_path, monkeypatch):
    """Run `curro ARGUMENTS` in a folder with a data set of nine prompts; returns its sentence."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # each test has a module of the same name in its folder
    sys.modules.pop("own_rewards", None)
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHAINS))
    Path("empty.jsonl").write_text("")
    Path("questions.jsonl").write_text('{"q": "1+1", "answer": "2"}\n')
    Path("unanswered.jsonl").write_text('{"prompt": "1+1"}\n')
    Path("cut.jsonl").write_text('{"prompt": "1+1"\n')
    picture = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which angle?"}]}]
    Path("images.jsonl").write_text(json.dumps({"prompt": picture, "answer": "5"}) + "\n")
    Path("mixed.jsonl").write_text('{"prompt": "1+1", "answer": "2"}\n{"question": "2+2"}\n')
    Path("own_rewards.py").write_text(
        "limit = 3\n\n\ndef score(completion, row):\n    return row['solution']\n"
    )
    Path("folder").mkdir()

    def run(*arguments: str) -> str:
        said = curro(*arguments, status=2)
        assert said.startswith("curro: ")
        assert "Traceback" not in said
        assert not list(tmp_path.glob("runs/*"))
        return said

    return run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--data empty.jsonl", "empty.jsonl is empty"),
        ("--resume runs/none", "runs/none"),
        ("--resume data.jsonl", "data.jsonl: it is a file"),
        ("--resume folder", "config.json"),
        ("--data data.jsonl --model lab:chain", "model 'chain'"),
        (f"{OWN} questions.jsonl", "prompt_column"),
        (f"{OWN} unanswered.jsonl", "answer_column"),
        (f"{OWN} cut.jsonl", "cut.jsonl:1"),
        (f"{OWN} mixed.jsonl", "row 1 (mixed.jsonl:2)"),
        (f"{OWN} folder", "folder folder"),
        (f"{OWN} data.jsonl --reward ./own_rewards.py:scor", "'score'?"),
        (f"{OWN} data.jsonl --reward own_rewards.py:limit", "neither a function nor a class"),
        (f"{OWN} data.jsonl --config none.toml", "none.toml"),
        (f"{OWN} data.jsonl --environment x", "environment is called 'x'"),
        (f"{OWN} data.jsonl --out folder/../data.jsonl", "not an empty folder"),
        (f"{OWN} images.jsonl", "row 0 of images.jsonl"),
    ],
)
def test_training(curro, arguments, named):
    is_whole = "--data" in arguments or "--resume" in arguments
    said = curro("train", *shlex.split(arguments if is_whole else f"--data lab:chains {arguments}"))
    assert named in said
    assert "\n" not in said


def test_a_reward_that_fails_in_the_first_step_leaves_nothing_that_blocks_the_command(curro, tmp_path):
    command = f"train {OWN} data.jsonl --prompts-per-step 4 --rollouts 32 --out run".split()
    said = curro(*command, "--reward", "own_rewards.py:score")
    assert "KeyError: 'solution' (" in said
    assert "own_rewards.py:5, in score)" in said
    assert not Path("run").exists()
    Path("mended.py").write_text("def score(completion, row):\n    return float(len(completion) % 2)\n")
    Path("other.py").write_text("def half(completion, row):\n    return 0.5\n")
    run_command(*command, "--reward", "0.5*mended.py:score+./other.py:half", folder=tmp_path)
    run = RunFolder.open("run")
    assert run.latest()["step"] == 1
    assert all(0.5 <= group["mean"] <= 1 for group in run.groups())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train --data lab:chains --out data.jsonl/x", "data.jsonl/x cannot be used (Not a dir"),
        ("estimate lab:chains --out data.jsonl/x", "data.jsonl/x cannot be used (Not a directory"),
        ("compare --data lab:chains --out data.jsonl/x", "data.jsonl/x cannot be used (Not a"),
        ("report run --out .", ". cannot be used: Is a directory"),
        ("report run --out data.jsonl/x", "data.jsonl cannot be used: File exists"),
    ],
)
def test_places_where_nothing_can_be_written(curro, arguments, sentence):
    run = RunFolder.create("run", {})
    run.append_metrics({"step": 1, "rollouts": 8})
    assert sentence in curro(*shlex.split(arguments))


def test_what_moves_the_cursor_is_spelt_out(curro):
    Path("evil.jsonl").write_text(json.dumps({"\x1b]0;owned\x07\x1b[2J\n[red]": 1}) + "\n")
    said = curro("train", "--data", "evil.jsonl")
    assert said.isprintable()
    assert r"no column of \x1b]0;owned\x07\x1b[2J\n[red] holds prompts" in said


COMPARED = ["compare", "uniform", "--out", "both"]


@pytest.fixture
def compared(curro):
    """A finished comparison of `COMPARED` in the folder `both`, as its config.json tells of it."""
    run = Path("both/uniform-seed0")
    (run / "model").mkdir(parents=True)

    def write(*flags: str) -> None:
        (run / "config.json").write_text(
            json.dumps({"command": ["train", "--out=both/uniform-seed0", *flags]})
        )

    write("--curriculum=uniform", "--seed=0", "--data=lab:chains")
    return write


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--data lab:locks", "--data was lab:chains, is lab:locks"),
        ("--data lab:chains --learning-rate 0.01", "--learning-rate was not given, is 0.01"),
    ],
)
def test_an_old_comparison_is_no_answer_to_another_question(curro, compared, flags, sentence):
    said = curro(*COMPARED, *shlex.split(flags))
    assert said.startswith("curro: both/uniform-seed0 holds another run (")
    assert sentence in said
    assert said.endswith("choose another folder with --out")


def test_folders_of_runs_are_compared_as_they_are(curro, compared):
    said = curro("compare", *shlex.split("both --seeds 5 --learning-rate 0.01"))
    assert "as they are: leave out --learning-rate, --seeds, or name" in said


def test_switches_reach_the_runs_of_a_comparison(curro, monkeypatch, tmp_path):
    """From the command line, and from the folder of a run, which has all of them."""
    RunFolder.create("run", {"settings": TrainSettings("lab:chains", skip_empty_steps=True).as_dict()})
    flags = []
    monkeypatch.setattr("curro.cli.compare.run_all", lambda runs, *_: flags.extend(run.flags for run in runs))
    asked = ["compare", "uniform", "--seeds", "1", "--config", "run", "--keep-best", "--no-share-prompts"]
    run_command(*asked, folder=tmp_path)
    train = typer.main.get_command(make_app(["train"])).commands["train"]
    given = train.make_context("train", *flags).params
    switches = ("skip_empty_steps", "keep_best", "share_prompts", "vllm")
    assert [given[name] for name in switches] == [True, True, False, False]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("compare uniform uniform", "stands twice"),
        ("compare uniform uniform:", "two have one folder's name"),
        ("compare --jobs 0", "jobs must be 1 or more, not 0"),
    ],
)
def test_mistakes_of_comparisons(curro, arguments, sentence):
    assert sentence in curro(*shlex.split(arguments))

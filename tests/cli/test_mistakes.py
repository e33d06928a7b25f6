"""What a newcomer mistypes is answered with one clear sentence, and no folder is left behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from curro.cli import main

CHAINS = [{"prompt": f"{digit}{letter}=", "answer": "5"} for digit in range(3) for letter in "abc"]


@pytest.fixture
def curro(monkeypatch, capsys, tmp_path):
    """Run `curro ARGUMENTS` in an empty folder with a data set of nine prompts; returns what it said."""
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHAINS))
    Path("empty.jsonl").write_text("")

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["curro", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        said = capsys.readouterr().err.strip()
        assert said.startswith("curro: ")
        assert "Traceback" not in said
        assert not list(tmp_path.glob("runs/*"))
        return said

    return run


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "dta.jsonl"], "there is no file or folder 'dta.jsonl'"),
        (["--data", "empty.jsonl"], "empty.jsonl is empty"),
        (["--data", "data.jsonl"], "name a model for data.jsonl"),
        (["--data", "lab:chain"], "the lab has no family 'chain'"),
        (
            ["--data", "lab:chains", "--curriculum", "prioritised-replay"],
            "did you mean 'prioritized-replay'?",
        ),
        (
            ["--data", "lab:chains", "--curriculum", "prioritized-replay:varant=published"],
            "no option 'varant'",
        ),
        (["--data", "lab:chains", "--curriculum", "mine:Method"], "cannot be imported"),
        (["--data", "lab:chains", "--admission", "band:0.7,0.3"], "a band needs 0 <= low < high <= 1"),
        (["--data", "lab:chains", "--admission", "bend"], "did you mean 'band'?"),
        (["--data", "lab:chains", "--advantage", "smoothed:alpha=2"], "alpha is in (0, 1]"),
        (["--data", "lab:chains", "--curriculum", "uniform band:0,1"], "is not a part of a curriculum"),
        (["--data", "lab:chains", "--loss-type", "drgrpo"], "loss_type is one of dr_grpo, dapo"),
        (["--data", "lab:chains", "--when-short", "stop"], "when_short is one of top-up, error"),
        (["--data", "lab:chains", "--refill-limit", "0"], "a number of batches from 1"),
        (["--data", "lab:chains", "--curriculum", "sec:column=levl"], "has no 'levl'"),
        (["--data", "lab:chains", "--reward", "maths"], "did you mean 'math'?"),
        (["--data", "lab:chains", "--limit", "5", "--prompts-per-step", "8"], "a step takes 8 prompts"),
        (["--data", "lab:chains", "--rollouts-per-prompt", "1"], "a group needs 2 rollouts or more"),
        (["--data", "lab:chains", "--learning-rate", "-1"], "learning_rate is a number above 0"),
        (
            ["--data", "data.jsonl", "--model", "lab:chains", "--answer-column", "sol"],
            "no answer column 'sol'",
        ),
        (["--resume", "runs/none"], "no run at runs/none"),
    ],
)
def test_training(curro, arguments, sentence):
    assert sentence in curro("train", *arguments)


def test_a_folder_that_is_in_use(curro):
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("precious")
    assert "mine exists and is not an empty folder" in curro("train", "--data", "lab:chains", "--out", "mine")


def test_a_comparison_of_one_curriculum_with_itself(curro):
    assert "stands twice" in curro("compare", "uniform", "uniform", "--data", "lab:chains")


def test_a_folder_without_a_run(curro):
    assert "holds no run" in curro("inspect", ".")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compare", "uniform", "uniform"], "stands twice"),
        (["compare", "--jobs", "0"], "jobs is a number from 1, not 0"),
        (["bench", "--jobs", "-1"], "jobs is a number from 1, not -1"),
        (["bench", "--method", "frontire"], "did you mean 'frontier'?"),
        (["bench", "--task", "chains"], "the benchmark has no task 'chains'"),
        (["bench", "--summary"], "has no results yet"),
    ],
)
def test_mistakes_of_comparisons(curro, arguments, sentence):
    assert sentence in curro(*arguments)

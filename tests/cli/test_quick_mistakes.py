"""A typo is answered before torch is imported, by the options as they are typed, and blocks nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from curro.cli.checks import as_typed
from curro.runs.folder import RunFolder

PROGRAM = """
import sys
from curro.cli import main
try:
    main()
finally:
    print("imported:", *sorted({"torch", "transformers", "datasets"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "--data", "dta.jsonl"], "there is no file or folder 'dta.jsonl'"),
        (["train", "--curriculum", "fronteir"], "did you mean 'frontier'?"),
        (["train", "--admission", "band:0.2"], "admission 'band' needs low and high; missing: high"),
        (["train", "--model", "SmolML2-135M"], "did you mean 'SmolLM2-135M'?"),
        (["train", "--model", "./models/none"], "there is no model at './models/none'"),
        (["train", "--log", "trackio"], "--log trackio needs the package trackio: pip install trackio"),
        (["train", "--rollouts-per-prompt", "1"], "--rollouts-per-prompt must be 2 or more"),
        (["train", "--project", "mine"], "--project names something for a logger: choose one with --log"),
        (["train", "--reward", "maths"], "did you mean 'math'?"),
        (["train", "--reward", "rewards.py"], "names a file and no function: write rewards.py:FUNCTION"),
        (["train", "--out", "/proc/x"], "/proc/x cannot be used: No such file or directory"),
        (["train", "--model", "full"], "the folder 'full' holds no model: it has no config.json"),
        (["train", "--seed", "-1"], "--seed must be from 0"),
        (["train", "--seed", "x"], "invalid value for '--seed': it must be a whole number (see"),
        (["train", "--out", "full"], "full exists and is not an empty folder"),
        (["compare", "uniform", "--data", "dta.jsonl"], "there is no file or folder 'dta.jsonl'"),
        (["compare", "uniform", "--model", "SmolML2-135M"], "did you mean 'SmolLM2-135M'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_typo_is_answered_without_torch(tmp_path, arguments, sentence):
    (tmp_path / "SmolLM2-135M").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == "imported:\n"
    assert not (tmp_path / "runs").exists()


def test_options_are_named_as_they_are_typed():
    sentence = "no column holds prompts: name it with prompt_column"
    assert as_typed(sentence, ["train"]) == "no column holds prompts: name it with --prompt-column"
    assert as_typed(sentence, ["train", "--config=run.toml"]) == sentence
    assert as_typed("the column 'key_column' of a/key_column.jsonl", []) == (
        "the column 'key_column' of a/key_column.jsonl"
    )


def test_a_failed_start_leaves_nothing_that_blocks_the_same_command(curro, monkeypatch):
    import curro.training.run as training
    from curro.errors import CurroError

    def fails(*arguments, **options):
        raise CurroError("the logger cannot start")

    command = ["train", "--data", "lab:chains", "--rollouts", "8", "--prompts-per-step", "2", "--out", "new"]
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", fails)
        assert "the logger cannot start" in curro(*command, status=2)
    assert not Path("new").exists()
    curro(*command, "--eval-prompts", "4")
    assert RunFolder.open("new").latest() is not None

"""A typo is answered in one sentence before torch is imported, and blocks nothing."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from curro.runs.folder import RunFolder

PROGRAM = """
import json, os, sys
import curro.cli.compare, curro.cli.estimate, curro.cli.train
from curro.cli import main

for folder, arguments in json.loads(sys.argv[1]):
    if os.fork() == 0:
        os.chdir(folder)
        for number, name in enumerate(["out", "err"], start=1):
            os.dup2(os.open(f"../{name}", os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["curro", *arguments]
        try:
            main()
        except SystemExit as end:
            print("status:", end.code)
        print("imported:", *sorted({"torch", "transformers", "datasets"} & set(sys.modules)), flush=True)
        os._exit(0)
    os.wait()
"""

OWN = "train --data rows.jsonl --model lab:chains"

TYPOS = [
    ("train --data dta.jsonl", "there is no file or folder 'dta.jsonl'"),
    ("train --curriculum fronteir", "did you mean 'frontier'?"),
    ("train --admission band:0.2", "admission 'band' needs low and high; missing: high"),
    ("train --model SmolML2-135M", "did you mean 'SmolLM2-135M'?"),
    ("train --model ./models/none", "there is no model at './models/none'"),
    ("train --log trackio", "--log trackio needs the package trackio: pip install trackio"),
    ("train --rollouts-per-prompt 1", "rollouts_per_prompt must be 2 or more"),
    ("train --data rows.jsonl", "name a model for rows.jsonl: --model with a folder, a hub"),
    (f"{OWN} --prompt-column problem", "no prompt column 'problem'"),
    (f"{OWN} --signal acc", "--signal acc: the reward has no such part; it has: "),
    ("train --reward 0.5*lab", "--reward 0.5*lab: a completion that is right in every part gets 0.5, and"),
    ("train --learning-rat 1e-4", "--learning-rate"),
    ("train Rows.jsonl", "(Rows.jsonl)"),
    ("train --reward maths", "did you mean 'math'?"),
    ("train --reward rewards.py", "names a file and no function: write rewards.py:FUNCTION"),
    ("train --out /proc/x", "/proc/x cannot be used (No such file or directory): choose a folder in"),
    (
        "train --model full",
        "the folder 'full' holds no model: it has no config.json",
    ),
    ("train --model ran", "'ran' is the folder of a run: once it has ended, its model is ran/model"),
    ("evaluate ran --suite rows.jsonl", "its model is ran/model"),
    ("train --seed -1", "seed must be from 0"),
    ("train --seed x", "invalid value for '--seed': "),
    ("train --out full", "full exists and is not an empty folder"),
    ("compare uniform --data rows.jsonl", "name a model for rows.jsonl"),
    ("compare uniform --data rows.jsonl --model lab:chains", "name held-out prompts with --eval-data"),
    ("compare uniform --data dta.jsonl", "there is no file or folder 'dta.jsonl'"),
    ("compare uniform --model SmolML2-135M", "did you mean 'SmolLM2-135M'?"),
    ("estimate dta.jsonl", "there is no file or folder 'dta.jsonl'"),
    ("estimate rows.jsonl", "name a model for rows.jsonl"),
    ("estimate lab:chains --server-model Qwen/Qwen2.5-3B", "a model on a server: name that with --server"),
    ("estimate rows.jsonl --model ./models/none", "there is no model at './models/none'"),
    ("evaluate ./models/none --suite rows.jsonl", "there is no model at './models/none'"),
    ("evaluate SmolML2-135M --suite MATH-500", "did you mean 'SmolLM2-135M'?"),
    ("evaluate lab:chains --suite MATH500", "no suite is called 'MATH500' (did you mean 'MATH-500'?)"),
    ("evaluate lab:chains --suite dta.jsonl", "there is no file or folder 'dta.jsonl'"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The working directory of each command, and what it said: all are forked from one process."""
    folders = []
    for _ in TYPOS:
        folder = tmp_path_factory.mktemp("typo") / "here"
        (folder / "SmolLM2-135M").mkdir(parents=True)
        (folder / "full").mkdir()
        (folder / "ran" / "checkpoints").mkdir(parents=True)
        for name in ("config.json", "metrics.jsonl"):
            (folder / "ran" / name).write_text("{}\n")
        (folder / "full" / "notes.txt").write_text("")
        rows = [json.dumps({"prompt": f"{i}+1=", "answer": str(i + 1)}) for i in range(4)]
        (folder / "rows.jsonl").write_text("\n".join(rows) + "\n")
        folders.append(folder)
    asked = [(str(folder), shlex.split(typed)) for folder, (typed, _) in zip(folders, TYPOS, strict=True)]
    subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(asked)], check=True, timeout=900)
    return [(folder, *((folder.parent / name).read_text() for name in ("out", "err"))) for folder in folders]


@pytest.mark.parametrize("number", range(len(TYPOS)), ids=[typed for typed, _ in TYPOS])
def test_a_typo_is_answered_without_torch(answers, number):
    folder, out, err = answers[number]
    assert TYPOS[number][1] in err
    assert err.count("\n") == 1
    assert out == "status: 2\nimported:\n"
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "the disk is full: free some space"), (errno.EFBIG, "raise the limit on its size")],
)
def test_a_write_that_fails_names_the_remedy(curro, monkeypatch, number, said):
    def fails(*arguments, **options):
        raise OSError(number, "no more")  # a write, of which Python knows no file name

    monkeypatch.setattr("curro.cli.inspect._runs", fails)
    assert said in curro("report", "run", status=2)


def test_a_failed_start_leaves_nothing_that_blocks_the_same_command(curro, monkeypatch):
    import curro.training.run as training
    from curro.core.errors import CurroError

    def fails(*arguments, **options):
        raise CurroError("the logger cannot start")

    command = ["train", "--data", "lab:chains", "--rollouts", "8", "--prompts-per-step", "2", "--out", "new"]
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", fails)
        assert "the logger cannot start" in curro(*command, status=2)
    assert not Path("new").exists()
    said = curro(*command, "--eval-prompts", "4")
    assert "reward lab:chains; name another one with --reward" in said
    assert RunFolder.open("new").latest() is not None

"""With the port alone: what needs the other packages says so in one sentence, and what does not works."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from curro.core.prompts import PromptTable
from curro.runs.folder import RunFolder

PROGRAM = """
import json, os, sys

class Blocked:
    NAMES = {"accelerate", "datasets", "math_verify", "matplotlib", "openai", "pandas", "peft",
             "reasoning_gym", "scipy", "torch", "transformers", "trl"}

    def find_spec(self, name, path=None, target=None):
        if name in self.NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from curro.cli import main

for arguments in json.loads(sys.argv[1]):
    if os.fork() == 0:
        for number, kind in enumerate(["out", "err"], start=1):
            os.dup2(os.open(f"{arguments[0]}.{kind}", os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["curro", *arguments]
        try:
            main()
        except SystemExit as end:
            print("status:", end.code or 0, flush=True)
        os._exit(0)
    os.wait()
"""

NEED_MORE = [
    ["train", "--data", "lab:chains"],
    ["compare", "--data", "lab:chains"],
    ["estimate", "lab:chains"],
    ["report", "run"],
    ["watch", "run"],
]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What a command printed, with its status, and what it said of mistakes: all fork from one process."""
    folder = tmp_path_factory.mktemp("extras")
    run = RunFolder.create(folder / "run", {})
    run.append_metrics({"step": 1, "rollouts": 8})
    group = {"step": 1, "prompt": 0, "key": "first", "reason": 1, "mean": 0.5, "variance": 0.25}
    run.append_groups([group | {"admitted": True}])
    run.write_table(PromptTable(3))
    commands = json.dumps([*NEED_MORE, ["inspect", "run"]])
    subprocess.run([sys.executable, "-c", PROGRAM, commands], cwd=folder, check=True, timeout=900)
    return lambda name: [(folder / f"{name}.{kind}").read_text() for kind in ("out", "err")]


@pytest.mark.parametrize("name", [arguments[0] for arguments in NEED_MORE])
def test_what_needs_more_names_the_extra(said, name):
    out, err = said(name)
    assert out.endswith("status: 2\n")
    assert err.startswith("curro: ")
    assert "install curro's extra train: pip install -e '.[train]' in its checkout" in err
    assert err.count("\n") == 1


def test_inspect_needs_no_more(said):
    out, err = said("inspect")
    assert out.endswith("status: 0\n"), err
    assert "first" in out

"""With the port alone: what needs the other packages says so in one sentence, and what does not works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from curro.core.prompts import PromptTable
from curro.runs.folder import RunFolder

PROGRAM = """
import sys

class Blocked:
    NAMES = {"accelerate", "datasets", "math_verify", "matplotlib", "openai", "pandas", "peft",
             "reasoning_gym", "scipy", "torch", "transformers", "trl"}

    def find_spec(self, name, path=None, target=None):
        if name in self.NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from curro.cli import main
main()
"""


def without_extras(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=900
    )


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 8})
    run.append_groups(
        [
            {
                "step": 1,
                "prompt": 0,
                "key": "first",
                "reason": 1,
                "mean": 0.5,
                "variance": 0.25,
                "admitted": True,
            }
        ]
    )
    run.write_table(PromptTable(3))
    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--data", "lab:chains"],
        ["compare", "--data", "lab:chains"],
        ["estimate", "lab:chains"],
        ["report", "run"],
        ["watch", "run"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_more_names_the_extra(run, arguments):
    done = without_extras(*arguments, folder=run.path.parent)
    assert done.returncode == 2
    assert done.stderr.startswith("curro: ")
    assert "install curro's extra train: pip install -e '.[train]' in its checkout" in done.stderr
    assert done.stderr.count("\n") == 1


def test_inspect_needs_no_more(run):
    done = without_extras("inspect", "run", folder=run.path.parent)
    assert done.returncode == 0, done.stderr
    assert "3 prompts" in done.stdout
    assert "first" in done.stdout

"""The examples run; what docs/trl.md shows as a diff is what examples/trl_script.py has."""

import re
import runpy
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script in this process, as a process of its own would; returns what it printed."""

    def run(script: Path, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(script), *options])
        runpy.run_path(str(script), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_the_bare_loop_trains_and_evaluates(run):
    printed = run(EXAMPLES / "bare_grpo.py", "--steps", "3")
    scores = [float(score) for score in re.findall(r"held-out pass@1 \w+: +(\S+)", printed)]
    assert len(scores) == 2
    assert all(0 < score < 1 for score in scores)
    assert len(re.findall(r"^step ", printed, re.MULTILINE)) == 3


def test_the_bare_loop_is_short():
    assert len((EXAMPLES / "bare_grpo.py").read_text().splitlines()) < 100


def test_the_trl_script_is_short():
    assert len((EXAMPLES / "trl_script.py").read_text().splitlines()) < 50


def test_the_trl_script_with_and_without_a_curriculum(run, tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", (REPOSITORY / "docs" / "trl.md").read_text(), re.DOTALL)
    script = (EXAMPLES / "trl_script.py").read_text()
    plain = script
    for hunk in re.split(r"^\.\.\.\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert script.count(after) == 1
        plain = plain.replace(after, "".join(line[1:] for line in lines if line[0] != "+"))
    assert "Curriculum" not in plain
    for name, text in (("plain", plain), ("curriculum", script)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        printed = run(path, "--max-steps", "1", "--output-dir", str(tmp_path / name))
        assert "train_runtime" in printed
        assert ("curriculum/table/unseen" in printed) == (name == "curriculum")

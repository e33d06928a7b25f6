"""The examples run; what docs/trl.md shows as a diff is what examples/trl_script.py has."""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"


def run(script: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(script), *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_bare_loop_trains_and_evaluates():
    printed = run(EXAMPLES / "bare_grpo.py", "--steps", "3")
    scores = [float(score) for score in re.findall(r"held-out pass@1 \w+: +(\S+)", printed)]
    assert len(scores) == 2
    assert all(0 < score < 1 for score in scores)
    assert len(re.findall(r"^step ", printed, re.MULTILINE)) == 3


def test_the_bare_loop_is_short():
    assert len((EXAMPLES / "bare_grpo.py").read_text().splitlines()) < 100


def test_the_trl_script_with_and_without_a_curriculum(tmp_path):
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
        assert ("curriculum/selected" in printed) == (name == "curriculum")

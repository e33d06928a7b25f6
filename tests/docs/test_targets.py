"""`make check` runs what CONTRIBUTING.md says of the files that have changed."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "targets.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("ci_targets", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script):
    return script.read_rows((ROOT / "CONTRIBUTING.md").read_text())


@pytest.mark.parametrize(
    ("files", "targets"),
    [
        ([], ""),
        (["README.md", "docs/img/result.svg"], "docs docs-blocks"),
        (["src/curro/core/curriculum.py"], "lint test"),
        (["src/curro/methods/selection/sec.py"], "lint test fast"),
        (["tests/hosts/verl/test_owner.py"], "lint verl"),
        (["tests/hosts/trl/test_fill.py"], "lint test trl-versions"),
        (["src/curro/contrib/trl_async.py", "docs/trl.md"], "lint test docs docs-blocks trl-async"),
        (["src/curro/reward/math.py"], "lint test"),
        (["src/curro/reward/sandbox/run.py"], "lint test sandbox"),
        (["pyproject.toml"], "lint test docs wheel"),
        (["a-new-folder/file.txt"], "lint test"),
    ],
)
def test_files_need_these_targets(script, rows, files, targets):
    assert script.targets_of(files, rows) == targets.split()


def test_the_table_names_the_makefiles_targets_and_files_that_exist(rows):
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    named = {target for _, targets in rows for target in targets}
    assert named <= set(phony)
    assert named >= set(phony) - {"check", "demo", "lock", "pretrained"}
    for pattern in (pattern for patterns, _ in rows for pattern in patterns):
        assert pattern == "*" or any(ROOT.glob(pattern)), pattern


def test_a_branch_is_compared_with_where_it_left_main(tmp_path):
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def check(*files: str) -> str:
        command = ["python3", ".ci/targets.py", *files]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    (tmp_path / ".ci").mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci")
    shutil.copy(ROOT / "CONTRIBUTING.md", tmp_path)
    (tmp_path / "mkdocs.yml").write_text("")
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    assert check() == ""
    git("checkout", "-b", "branch")
    git("mv", "mkdocs.yml", "pyproject.toml")  # what is moved away counts where it was, too
    git("commit", "-m", "second")
    assert check() == "lint test docs docs-blocks wheel"
    (tmp_path / "tests/loggers").mkdir(parents=True)
    (tmp_path / "tests/loggers/test_new.py").write_text("")
    assert check() == "lint test docs docs-blocks loggers wheel"
    assert check("docs/trl.md") == "docs docs-blocks"

"""`make check` runs what CONTRIBUTING.md says of the files that have changed."""

from __future__ import annotations

import importlib.util
import re
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
        (["README.md", "docs/img/result-natures.svg"], "docs docs-blocks"),
        (["src/curro/core/curriculum.py"], "lint test simulate"),
        (["src/curro/methods/selection/sec.py"], "lint test fast"),
        (["tests/hosts/verl/test_owner.py"], "lint verl"),
        (["tests/hosts/trl/test_fill.py"], "lint test trl-versions"),
        (["src/curro/contrib/trl_async.py", "docs/trl.md"], "lint test docs docs-blocks trl-async"),
        (["src/curro/contrib/greso.py"], "lint test contrib"),
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

"""Runs the code blocks of the documentation: `pytest README.md CONTRIBUTING.md docs benchmarks/pages`.

A document's blocks run in order, in one temporary folder. `python` blocks share their names; `bash` blocks
run with the virtual environment's commands; other blocks (`text`, `diff`) are for reading.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from tests.forks import commands


def run_bash(example: Example) -> None:
    """Run a block as a script that stops at the first error; its commands are forked, with torch imported."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", str(example.parsed)],
        env=os.environ | {"PATH": f"{commands()}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def enter(namespace: dict[str, Any]) -> None:
    namespace["folder"] = tempfile.TemporaryDirectory()
    namespace["before"] = Path.cwd()
    os.chdir(namespace["folder"].name)
    sys.path.insert(0, namespace["folder"].name)


def leave(namespace: dict[str, Any]) -> None:
    sys.path.remove(namespace["folder"].name)
    os.chdir(namespace["before"])
    namespace["folder"].cleanup()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A document's blocks stay in order where pytest-randomly shuffles the tests."""
    blocks = [item for item in items if isinstance(item, SybilItem)]
    in_order = iter(sorted(blocks, key=lambda item: (item.path, item.example.line)))
    items[:] = [next(in_order) if isinstance(item, SybilItem) else item for item in items]


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser("bash", run_bash)],
    patterns=[
        "README.md",
        "CONTRIBUTING.md",
        "docs/*.md",
        "benchmarks/pages/*.md",
        "src/curro/skill/SKILL.md",
    ],
    setup=enter,
    teardown=leave,
).pytest()

"""The table of benchmarks names every command and every result, and pages that quote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
README = (BENCHMARKS / "README.md").read_text()
ROWS = re.findall(r"^\| (?!question|-)(.+?) \|$", README, re.MULTILINE)


def test_every_module_that_runs_has_a_row():
    modules = [path for path in BENCHMARKS.glob("*/*.py") if "__main__" in path.read_text()]
    commands = {f"benchmarks.{path.parent.name}.{path.stem}".removesuffix(".__main__") for path in modules}
    assert set(re.findall(r"`[^`]*python -m (benchmarks\S+?)[ `]", README)) == commands - {
        "benchmarks.hosts.completion_server"
    }


def test_every_result_is_named():
    results = {path.name for path in (BENCHMARKS / "results").iterdir()} - {"pools", "tried"}
    assert set(re.findall(r"`([\w-]+\.(?:md|json|jsonl|parquet))`", README)) == results


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0])
def test_a_row_is_complete_and_its_page_exists(row):
    question, command, minutes, result, page = row.split(" | ")
    assert all((question, minutes, result))
    assert re.search(r"`(.* )?(python -m (benchmarks|tests)|curro|make) ?", command)
    (target,) = re.findall(r"\]\((\S+?)(?:#\S+)?\)", page)
    assert (BENCHMARKS / target).is_file()

"""The pages that follow one training step name files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/one-step-*.md"))
CODE = re.compile(r"`([^`]+)`")


def rows_of(page: Path) -> list[tuple[list[str], str]]:
    """(calls, file) of every row of the page's tables, without their heads."""
    rows = []
    for line in page.read_text().splitlines():
        if line.startswith("|") and not line.startswith(("| call |", "|---")):
            calls, file, *_ = line.strip("|").split("|")
            rows.append((CODE.findall(calls), file.strip().strip("`")))
    return rows


def definitions(file: Path) -> set[str]:
    """The functions and classes of a module, and `Class.method`."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_function_that_a_page_names_exists(page):
    rows = rows_of(page)
    assert len(rows) > 10
    for calls, file in rows:
        assert calls, f"{page.name} has a row without a call"
        if file.endswith(".py"):
            missing = set(calls) - definitions(ROOT / "src/curro" / file)
            assert not missing, f"{page.name}: {file} has no {', '.join(sorted(missing))}"
    named = {name for name in CODE.findall(page.read_text()) if name.endswith(".py")}
    assert all((ROOT / "src/curro" / name).is_file() for name in named)

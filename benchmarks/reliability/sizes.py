"""How much there is of curro, and how much of it one step of the port runs through.

    python -m benchmarks.reliability.sizes

Prints lines, files, docstrings, words, and the flags and hooks of a selection; and for `uniform` and
`frontier` how many files and calls of curro's own functions one `observe` and one `select` take, once the
method has learnt, in the mean of 20 steps. Gives up: calls into NumPy, which count as nothing.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import curro
from curro import Curriculum, Selection
from curro.core.policy import PolicyUse
from curro.data import PromptSet

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "curro"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PROMPTS, BATCH, GROUP = 1000, 8, 4
BEFORE, STEPS = 30, 20


def lines_of(files: Iterable[Path]) -> int:
    return sum(path.read_text().count("\n") for path in files)


def docstring_lines(files: Iterable[Path]) -> int:
    """Lines of the docstrings of modules, classes and functions."""
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())))
    texts = (ast.get_docstring(node) for node in nodes if isinstance(node, DOCUMENTED))
    return sum(text.count("\n") + 1 for text in texts if text)


def sizes() -> dict[str, int]:
    """What is counted, by its name."""
    source = sorted(SOURCE.rglob("*.py"))
    contrib = [path for path in source if "contrib" in path.relative_to(SOURCE).parts]
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "options.md"]  # which is generated
    members = [value for name, value in inspect.getmembers(Selection) if not name.startswith("_")]
    return {
        "lines of source": lines_of(source),
        "lines of source without contrib": lines_of(source) - lines_of(contrib),
        "lines of docstrings in it": docstring_lines(source),
        "files of source": len(source),
        "lines of tests": lines_of((ROOT / "tests").rglob("*.py")),
        "words of docs": sum(len(page.read_text().split()) for page in pages),
        # not `remembered`, the names of what is saved, and `posterior`, which is a part
        "flags of a selection": sum(isinstance(value, bool | str | PolicyUse) for value in members),
        "hooks of a selection": sum(map(callable, members)),
    }


def one_step(method: str) -> tuple[float, float]:
    """Files and calls of curro's functions in one `observe` and one `select`, the mean of `STEPS`."""
    rng = np.random.default_rng(0)
    rows = [{"key": str(i), "prompt": f"What is {i} times {i % 7}?", "answer": None} for i in range(PROMPTS)]
    curriculum = Curriculum(method, PromptSet(rows), seed=0)
    files = calls = 0
    seen: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(Path(curro.__file__).parent)):
            seen[frame.f_code.co_filename] += 1

    draw = curriculum.select(BATCH, step=0)
    for step in range(1, BEFORE + STEPS + 1):
        rewards_PG = rng.random((BATCH, GROUP)) < (draw.prompts % 7 / 7)[:, None]
        seen.clear()
        sys.setprofile(count)
        curriculum.observe(draw.tickets, rewards_PG)
        draw = curriculum.select(BATCH, step=step)
        sys.setprofile(None)
        if step > BEFORE:
            files, calls = files + len(seen), calls + seen.total()
    return files / STEPS, calls / STEPS


def main() -> None:
    for name, number in sizes().items():
        print(f"{name:<34}{number:>8,}")
    for method in ("uniform", "frontier"):
        files, calls = one_step(method)
        print(f"one observe and select of {method:<8}{files:>8.0f} files, {calls:.0f} calls")


if __name__ == "__main__":
    main()

"""What `import curro` offers, and what it loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import curro
from curro.core.registry import BUILTIN


def loaded(statement: str) -> set[str]:
    """The packages that a new process has imported after this statement."""
    script = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", curro.__all__)
def test_every_public_name_is_there(name):
    assert getattr(curro, name).__name__ == name
    assert name in dir(curro)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'curro' has no attribute 'Curiculum'"):
        curro.Curiculum  # noqa: B018


def test_numpy_comes_with_the_first_name_and_torch_never():
    heavy = {
        "accelerate",
        "datasets",
        "matplotlib",
        "pandas",
        "pyarrow",
        "scipy",
        "torch",
        "transformers",
        "trl",
    }
    assert not loaded("import curro, curro.cli") & (heavy | {"numpy"})
    named = loaded("from curro import *; import curro.data")
    assert "numpy" in named
    assert not named & heavy


def test_the_citation_has_the_version():
    root = Path(__file__).parents[1]
    cited = re.findall(r"^version: (.*)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == [tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]]


PACKAGE = Path(curro.__file__).parent


def public() -> set[tuple[str, str]]:
    """Module and name of all methods, and of what the packages offer."""
    names = {tuple(target.split(":")) for methods in BUILTIN.values() for target in methods.values()}
    names |= {(getattr(curro, name).__module__, name) for name in curro.__all__}
    for package in PACKAGE.rglob("__init__.py"):
        for node in ast.parse(package.read_text()).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("curro."):
                names |= {(node.module, alias.name) for alias in node.names}
    return names


def raised(function: ast.AST) -> set[str]:
    """The classes of errors that a function raises by name, not counting functions inside of it."""
    found = set()
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            found |= {error.id} if isinstance(error, ast.Name) and error.id[0].isupper() else set()
        found |= raised(node)
    return found - {"NotImplementedError"}


def undocumented(file: Path, name: str) -> Iterator[str]:
    """What this public function, or this class and its public methods, raise without saying so."""
    node = next(
        (node for node in ast.parse(file.read_text()).body if getattr(node, "name", "") == name), None
    )
    docstring = (ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None) or ""
    members = node.body if isinstance(node, ast.ClassDef) else [node] if docstring else []
    for member in members:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        own = docstring if member.name in ("__init__", name) else ast.get_docstring(member)
        if own is not None and (member.name in ("__init__", name) or not member.name.startswith("_")):
            yield from (
                f"{file.name}: {name}: {error}" for error in sorted(raised(member)) if error not in own
            )


def test_public_docstrings_name_the_errors_that_are_raised():
    missing = []
    for module, name in sorted(public()):
        file = PACKAGE.joinpath(*module.split(".")[1:])
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        missing += undocumented(file, name)
    assert missing == []

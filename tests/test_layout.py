"""Who imports whom in `src/curro`: no circle of files, none of folders, nothing that the design forbids."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

ORDER = (
    "errors", "text", "workers", "index", "policy", "loading", "registry", "storage",
    "data", "port_kernels", "prompts", "groups", "tickets", "meters",
    "admission", "advantage", "prediction", "selection", "allocation", "verdicts", "configuration",
    "curriculum", "durable", "curro", "runs", "reward", "environments", "rollout",
    "evaluation", "lab", "theory", "report", "watch", "serve", "hosts", "training", "bench", "cli",
    "__main__",
)  # fmt: skip
"""Folders of curro, and modules beside them: each may import only what stands before it."""

FORBIDDEN = {
    "index": ORDER,
    "prompts": ("index", "policy", "loading", "registry"),
    "admission": ("registry",),
    "advantage": ("registry",),
    "prediction": ("registry",),
    "rollout": ("data", "reward", "environments"),
    "hosts": ("lab", "report", "theory"),
}
"""What else a folder must not know, although it stands before it."""


@cache
def imports() -> dict[str, set[str]]:
    """The modules of curro that each module imports, wherever the import stands."""
    files: dict[str, Path] = {}
    for path in sorted((SOURCE / "curro").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert not node.level, f"{name}: import curro's modules by their full names"
                wanted = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [one if one in files else node.module for one in wanted]
            else:
                continue
            found[name] |= {one for one in wanted if one in files}
    return found


def unit(module: str) -> str:
    """The folder of curro that a module is in, or its own name beside the folders."""
    return module.split(".")[1] if "." in module else module


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """One circle, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_circle_of_files():
    assert circle_in(imports()) == []


def test_no_circle_of_folders():
    folders: dict[str, set[str]] = defaultdict(set)
    for name, those in imports().items():
        folders[unit(name)] |= {unit(one) for one in those} - {unit(name)}
    assert circle_in(folders) == []


def test_every_folder_has_its_place():
    assert {unit(name) for name in imports()} <= set(ORDER)


@pytest.mark.parametrize("folder", ORDER)
def test_a_folder_knows_only_what_it_may(folder):
    may = set(ORDER[: ORDER.index(folder)]) - set(FORBIDDEN.get(folder, ())) | {folder}
    wrong = [
        f"{name} imports {one}"
        for name, those in imports().items()
        if unit(name) == folder
        for one in sorted(those)
        if unit(one) not in may
    ]
    assert wrong == []


def test_adapters_do_not_know_each_other():
    for name, those in imports().items():
        if unit(name) == "hosts" and name.count(".") > 1:
            own = name.split(".")[2]
            assert all(one.split(".")[2:3] in ([], [own]) for one in those if unit(one) == "hosts"), name


def test_helpers_of_a_host_do_not_know_its_trainer():
    for name, those in imports().items():
        if name.startswith("curro.hosts.") and not name.endswith((".plugin", ".trl")):
            assert not any(one.endswith(".trainer") for one in those), name


@pytest.mark.parametrize(
    ("graph", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, False),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, True),
    ],
)
def test_a_circle_is_found(graph, circle):
    assert bool(circle_in(graph)) == circle

"""Who imports whom in `src/curro`: no circle of files, none of folders, nothing that the design forbids."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

ORDER = (
    "core", "methods", "data", "reward", "rollout", "runs", "curro", "lab", "hosts",
    "training", "cli", "__main__", "contrib",
)  # fmt: skip
"""Folders of curro, and modules beside them: each may import only what stands before it."""

FORBIDDEN = {
    "hosts": ("lab",),
}
"""What else a folder must not know, although it stands before it."""


@cache
def modules() -> dict[str, Path]:
    """The files of `src/curro` by the names of their modules."""
    files: dict[str, Path] = {}
    for path in sorted((SOURCE / "curro").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def imports() -> dict[str, set[str]]:
    """The modules of curro that each module imports, wherever the import stands."""
    files = modules()
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
    [({"a": {"b"}, "b": {"c"}, "c": set()}, False), ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, True)],
)
def test_a_circle_is_found(graph, circle):
    assert bool(circle_in(graph)) == circle


def assigned(node: ast.AST) -> set[str]:
    """The names that a statement of a module defines or imports."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    nested = [child for child in ast.walk(node) if child is not node and isinstance(child, ast.stmt)]
    return names.union(*map(assigned, nested))


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "recipes"])
def test_scripts_import_names_that_exist(folder):
    """No test runs these scripts whole, so that a renamed class would be found by a user."""
    names = {
        name: set().union(*map(assigned, ast.parse(path.read_text()).body))
        for name, path in modules().items()
    }
    missing = [
        f"{path.name}: from {node.module} import {alias.name}"
        for path in sorted((SOURCE.parent / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "curro"
        for alias in node.names
        if f"{node.module}.{alias.name}" not in names
        and alias.name not in names.get(node.module, ())
        and "__getattr__" not in names.get(node.module, ())
    ]
    assert missing == []


def is_script(path: Path) -> bool:
    """Whether a file is read as text and executed elsewhere: its folder is no package."""
    return not (path.parent / "__init__.py").exists()


def test_a_short_file_has_two_importers_or_is_named_by_an_entry():
    """A file that serves one neighbour belongs to that neighbour.

    An entry is the module's name in a text: a registry's, a command's, or a process's that imports it.
    """
    text = "".join(path.read_text() for path in modules().values())
    importers = Counter(wanted for those in imports().values() for wanted in those)
    lonely = [
        name
        for name, path in modules().items()
        if path.name not in ("__init__.py", "__main__.py")
        and path.read_text().count("\n") < 60
        and importers[name] < 2
        and f'"{name}' not in text
        and not is_script(path)
    ]
    assert lonely == []


def test_nothing_reads_the_time_of_day():
    """A clock that is set back or forward changes no draw, no time limit and no file."""
    readers = {
        (name, node.attr)
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and (
            (node.attr in ("time", "time_ns", "localtime", "gmtime") and ast.unparse(node.value) == "time")
            or node.attr in ("today", "utcnow", "st_mtime", "st_mtime_ns", "st_ctime")
        )
    }
    assert readers == set()


def test_no_type_name_stands_for_two_types():
    homes = defaultdict(list)
    for name, path in modules().items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not is_script(path):
                homes[node.name].append(name)
    assert {name: those for name, those in homes.items() if len(those) > 1} == {}

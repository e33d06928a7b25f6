"""Objects by `module:name`: where they are looked for, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from curro.core.errors import ConfigError
from curro.core.loading import load_callable, load_object


def test_from_the_working_directory_and_from_what_is_installed(user_module):
    name = user_module("n = 3\n")
    assert load_object(f"{name}:n", "reward") == load_object(f"{name}.py:n", "reward") == 3
    assert load_callable("numpy:equal", "reward") is np.equal


@pytest.mark.parametrize("spec", ["builtins:exec", "os:system", "operator:eq", "importlib.util:find_spec"])
def test_modules_of_python_itself_get_nothing_that_a_model_writes(spec):
    with pytest.raises(ConfigError, match="is a module of Python itself"):
        load_callable(spec, "reward")


@pytest.mark.parametrize("command", [["-m", "curro"], ["-c", "from curro.cli import main; main()"]])
def test_a_file_in_the_working_directory_stands_for_no_installed_module(tmp_path, command):
    """A run from elsewhere may hold a `rich.py`, and `curro report .` must not run it."""
    for name in ("typer", "rich", "numpy", "pyarrow", "jinja2"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('EXECUTED')")
    safe = ["-P"] if command[0] == "-c" else []
    ended = subprocess.run(
        [sys.executable, *safe, *command, "report", "."], cwd=tmp_path, capture_output=True, text=True
    )
    printed = ended.stdout + ended.stderr
    assert "EXECUTED" not in printed
    assert "holds no run" in printed or "matplotlib is not installed" in printed  # in the core alone


def test_curro_s_own_are_not_looked_for_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    load_object("curro.methods.selection.uniform:Uniform", "selection")
    assert str(tmp_path) not in sys.path


def test_a_name_that_is_not_there(user_module):
    name = user_module(
        "from math import sqrt\nclass Helper: ...\ndef score_it(c, r): ...\ndef _hidden(c, r): ...\nn = 3\n"
    )
    message = (
        rf"^reward '{name}:scoreit': the module '{name}' has no 'scoreit' \(did you mean 'score_it'\?\); "
        "it has: Helper, score_it$"
    )
    with pytest.raises(ConfigError, match=message):
        load_object(f"{name}:scoreit", "reward")
    with pytest.raises(ConfigError, match=r"has no 'f'; it has: none$"):
        load_object(f"{user_module('')}:f", "reward")
    with pytest.raises(ConfigError, match=rf"^reward '{name}:n' is 3, neither a function nor a class$"):
        load_callable(f"{name}:n", "reward")


@pytest.mark.parametrize("end", ["", ":"])
def test_a_module_alone_is_not_imported(user_module, end):
    name = user_module("raise SystemExit('EXECUTED')")
    with pytest.raises(ConfigError, match=rf"^strip '{name}{end}' names nothing in a module"):
        load_object(f"{name}{end}", "strip")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_library\n", "failed: No module named 'no_such_library'"),
        ("def f(:\n", "failed: SyntaxError: "),
        ("1 / 0\n", "failed: ZeroDivisionError: "),
    ],
)
def test_a_module_that_does_not_import(user_module, text, message):
    name = user_module(text)
    with pytest.raises(ConfigError, match=rf"^environment '{name}:f': importing '{name}' {message}"):
        load_object(f"{name}:f", "environment")


def test_rewards_and_environments_know_no_lab():
    command = (
        "import curro.reward, curro.reward.environments, sys; print([n for n in sys.modules if '.lab' in n])"
    )
    done = subprocess.run([sys.executable, "-c", command], text=True, capture_output=True, timeout=900)
    assert done.stdout == "[]\n"


def test_a_file_is_named_by_its_path_from_anywhere(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "path_helper.py").write_text("value = 3")
    (folder / "by_path.py").write_text("from path_helper import value as n\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load_object("./elsewhere/by_path.py:n", "reward") == 3
    assert load_object(f"{folder}/by_path.py:n", "reward") == 3
    with pytest.raises(ConfigError, match=r"^reward '\./none\.py:n': there is no file .*/none\.py$"):
        load_object("./none.py:n", "reward")
    (folder / "json.py").write_text("n = 1")
    with pytest.raises(ConfigError, match=r"another module is called 'json' \(.*\): give the file .* a name"):
        load_object("elsewhere/json.py:n", "reward")

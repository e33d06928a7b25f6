"""Fixtures that the tests of several folders share."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

_number = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    """Tests run in random order, and none finds the global generators as it would always be: by default
    pytest-randomly seeds them before each test, which would hide that one depends on them."""
    if config.pluginmanager.hasplugin("randomly"):
        config.option.randomly_reset_seed = False


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Callable[[str, Callable[[Path], object]], Path]:
    """Makes a folder of a name once for all workers of the test run, by calling a function with it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, done = shared / name, shared / f"{name}.done"
        with FileLock(shared / f"{name}.lock"):
            if not done.exists():
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return make


@pytest.fixture(scope="session", autouse=True)
def _own_state_folder(tmp_path_factory):
    """Commands note in the user's state folder which code was run; tests note it in one of their own."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """Writes a module with a name of its own into a working directory of its own; returns the name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text: str) -> str:
        name = f"user_module_{next(_number)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return write

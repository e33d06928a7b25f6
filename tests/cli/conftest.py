"""Commands in this process: a process of their own spends seconds on imports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import pytest

from curro.cli import main


def run_command(*arguments: str, folder: Path, status: int = 0) -> str:
    """Run `curro ARGUMENTS` in a folder; returns what it printed, or the sentence it ended with."""
    out, err = StringIO(), StringIO()
    with (
        chdir(folder),
        mock.patch.object(sys, "argv", ["curro", *arguments]),
        mock.patch.dict(os.environ, COLUMNS="200"),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert (stop.value.code or 0) == status, out.getvalue() + err.getvalue()
    return err.getvalue().strip() if status else out.getvalue()


@pytest.fixture(scope="session")
def curro_in() -> Callable[..., str]:
    """`run_command`."""
    return run_command


@pytest.fixture
def curro(monkeypatch, tmp_path) -> Callable[..., str]:
    """Run `curro ARGUMENTS` in an empty folder, which the test is in too."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int = 0) -> str:
        return run_command(*arguments, folder=tmp_path, status=status)

    return run

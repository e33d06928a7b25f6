"""Commands in this process: a process of their own spends seconds on imports.

Runs that a command trains side by side are forked from one process, which all tests share.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from tests.forks import Forked

from curro.cli import main, side_by_side


def forked_runs() -> AbstractContextManager[Any]:
    """Fork runs that are trained side by side from the process that all tests share."""
    return mock.patch.object(side_by_side, "_server", return_value=SimpleNamespace(Process=Forked))


def run_command(*arguments: str, folder: Path, status: int = 0) -> str:
    """Run `curro ARGUMENTS` in a folder.

    Returns:
        what it printed; after a mistake of the user's, which has status 2, the sentence that it ended with.
    """
    out, err = StringIO(), StringIO()
    with (
        chdir(folder),
        mock.patch.object(sys, "argv", ["curro", *arguments]),
        mock.patch.dict(os.environ, COLUMNS="200"),
        forked_runs(),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert (stop.value.code or 0) == status, out.getvalue() + err.getvalue()
    return err.getvalue().strip() if status == 2 else out.getvalue() + err.getvalue()

"""Commands in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.in_process import run_command


@pytest.fixture
def curro(monkeypatch, tmp_path) -> Callable[..., str]:
    """Run `curro ARGUMENTS` in an empty folder, which the test is in too."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int = 0) -> str:
        return run_command(*arguments, folder=tmp_path, status=status)

    return run

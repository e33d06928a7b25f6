"""Fixtures that the tests of several folders share."""

from __future__ import annotations

import itertools
import sys

import pytest

_number = itertools.count()


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

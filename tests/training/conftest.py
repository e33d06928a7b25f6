"""Runs without pictures: drawing the report takes longer than training a few steps."""

from __future__ import annotations

import pytest

from curro.runs import report


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    def write(folder, out=None):
        (folder.path / "report.html").write_text("")

    monkeypatch.setattr(report, "write_report", write, raising=False)

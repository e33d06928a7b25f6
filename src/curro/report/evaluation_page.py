"""The page of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from curro.evaluation.results import Sheet
from curro.report.html import write_page


def write_evaluation(path: Path, sheets: Sequence[Sheet], settings: Sequence[tuple[str, str]]) -> Path:
    """Write the tables and how they were made; everything is escaped.

    Args:
        settings: of each suite, its name and how it was sampled.
    """
    title = "curro: evaluation"
    return write_page("evaluation.html", path, title=title, sheets=sheets, settings=settings)

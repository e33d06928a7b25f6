"""The page of one run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curro.report.advice import advise, verdict
from curro.report.drawing import picture
from curro.report.headlines import headlines
from curro.report.html import write_page
from curro.report.rankings import rankings, readable
from curro.report.run_reader import read_history
from curro.report.sections import sections
from curro.storage.run_folder import RunFolder

_ROWS = 10


def write_report(run: RunFolder | str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write a run's page: one HTML file that loads nothing and runs nothing.

    Args:
        run: the run, or its folder; it may still be training.
        out: where to; `report.html` in the run's folder by default.

    Raises:
        RunError: no run, or one without a finished training step.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
    history = read_history(folder)
    return write_page(
        "report.html",
        folder.path / "report.html" if out is None else Path(out),
        history=history,
        title=f"curro: {readable(history.name, 60)}",
        headlines=headlines(history),
        verdict=verdict(history),
        advice=advise(history),
        sections=[(title, [picture(one) for one in charts]) for title, charts in sections(history)],
        rankings=rankings(history.groups, _ROWS),
        config=list(_flat(history.config)),
    )


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows: `curriculum.seed`, `3`."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)

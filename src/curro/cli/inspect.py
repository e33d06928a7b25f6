"""`curro inspect` and `curro report`: what a run knows of its prompts, on the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from curro.runs import RunFolder

Run = Annotated[Path, typer.Argument(help="A run's folder.")]


def inspect(
    run: Run,
    rows: Annotated[int, typer.Option(help="Rows of each table.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Write the whole prompt table to a .csv or .parquet file.")
    ] = None,
) -> None:
    """Show the prompt table: the hardest, the most informative and the regressed prompts."""
    from curro.report import inspect_run

    inspect_run(RunFolder.open(run), rows, Console(markup=False, highlight=False), out)


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Where to write. [default: RUN/report.html]")] = None,
) -> None:
    """Write one self-contained page with the run's curves and pictures."""
    from curro.report import write_report

    Console(markup=False, highlight=False).print(str(write_report(RunFolder.open(run), out)))

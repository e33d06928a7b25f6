"""`curro inspect` and `curro report`: what a run knows of its prompts, on the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.cli.terminal import plain_console
from curro.runs.folder import RunFolder

Run = Annotated[
    Path,
    typer.Argument(
        help="The run's folder: of curro train, the output_dir of a TRL script, one of its checkpoints, or "
        "the default_local_dir of a verl run."
    ),
]


def inspect(
    run: Run,
    prompt: Annotated[
        str | None,
        typer.Argument(
            help="The key or row number of a prompt: show its history and its kept rollouts instead."
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="How many rows of each table to show.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Write the whole prompt table to this .csv or .parquet file instead.")
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show the prompts' keys in place of the beginnings of their texts.")
    ] = False,
) -> None:
    """Show a run's hard, informative and forgotten prompts.

    Lists the hardest prompts, the most informative ones, and those that were solved once and now fail. Also
    says how many rollouts the usual difficulty bands would cost.
    """
    from curro.runs.report import inspect_prompt, inspect_run

    if prompt is not None:
        inspect_prompt(RunFolder.open(run), prompt, rows, plain_console())
        return
    inspect_run(run, rows, plain_console(), out, keys=keys)


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: RUN/report.html]")] = None,
) -> None:
    """Write a run's curves and pictures to one HTML page.

    The page needs no network and no scripts. `curro train` writes it at its end.
    """
    from curro.runs.report import write_report

    plain_console().print(str(write_report(RunFolder.open(run), out)))

"""`curro inspect` and `curro report`: what runs know of their prompts, in the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from curro.cli.terminal import plain_console
from curro.core.errors import ConfigError
from curro.runs.folder import RunFolder, find_runs, run_names, saved_curriculum

Run = Annotated[
    Path,
    typer.Argument(
        help="The run's folder: of curro train, the output_dir of a TRL script, one of its checkpoints, or "
        "the default_local_dir of a verl run; or a folder that holds such folders."
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
    rows: Annotated[int, typer.Option(min=1, help="How many prompts of each ranking to show.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Write the whole prompt table to this .csv or .parquet file instead.")
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Show the prompts' keys in place of the beginnings of their texts.")
    ] = False,
) -> None:
    """Show a run's hard, informative and forgotten prompts.

    Lists the hardest prompts, the most informative, and the regressed ones. Also
    says how many rollouts the usual difficulty bands would cost. For a folder of several runs, lists them.
    """
    from curro.runs.report import inspect_prompt, inspect_run

    console = plain_console()
    if prompt is not None:
        inspect_prompt(RunFolder.open(_only_run(run)), prompt, rows, console)
    elif out is not None or len(runs := _runs(run)) == 1:
        inspect_run(_only_run(run), rows, console, out, keys=keys)
    else:
        console.print(_overview(runs))
        console.print(f"curro inspect {runs[0]} shows the prompts of one of them")


def _runs(path: Path) -> list[Path]:
    """The runs at a path; the path itself if it is a checkpoint, or holds nothing."""
    if not path.is_dir() or saved_curriculum(path) is not None:
        return [path]
    return find_runs([path])


def _only_run(path: Path) -> Path:
    runs = _runs(path)
    if len(runs) > 1:
        raise ConfigError(f"{path} holds {len(runs)} runs: name one of them, such as {runs[0]}")
    return runs[0]


def _overview(paths: list[Path]) -> Table:
    from curro.runs.reader import read_history
    from curro.runs.report.compare import OVERVIEW, RECENT_NOTE, overview_row

    table = Table(caption=RECENT_NOTE, caption_justify="left")
    for i, name in enumerate(OVERVIEW):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    for path, name in zip(paths, run_names(paths), strict=True):
        folder = RunFolder.open(path)
        cells = overview_row(name, read_history(folder)) if folder.latest() else (name, "not begun")
        table.add_row(*map(Text, cells))
    return table


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: RUN/report.html]")] = None,
) -> None:
    """Write a run's page: figures, advice, prompts and rollouts.

    It is the page of curro watch as one file that needs no network and no scripts. `curro train` writes it at
    its end. For a folder of several runs, writes the page of each, and one that compares them.
    """
    runs = find_runs([run]) if run.is_dir() else [run]
    from curro.runs.report.page import write_report, write_reports

    if len(runs) > 1:
        pages = write_reports(runs, out or run / "report.html")
    else:
        pages = [write_report(RunFolder.open(runs[0]), out)]
    for page in pages:
        plain_console().print(str(page))

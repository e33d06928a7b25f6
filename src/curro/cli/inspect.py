"""`curro inspect` and `curro report`: what runs know of their prompts, in the terminal and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.cli.terminal import plain_console
from curro.core.errors import ConfigError
from curro.runs.folder import RunFolder, find_runs

Run = Annotated[
    Path,
    typer.Argument(
        help="The run's folder: of curro train, the output_dir of a TRL script, one of its checkpoints, or "
        "the default_local_dir of a verl run; for report also a folder that holds such folders."
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
) -> None:
    """Show a run's hard, informative and forgotten prompts.

    Lists the hardest prompts, the most informative ones, and prompts that were solved once and now fail.
    """
    from curro.runs.report.inspect import inspect_prompt, inspect_run

    folder, console = _only_run(run), plain_console()
    if prompt is not None:
        inspect_prompt(folder, prompt, rows, console)
    else:
        inspect_run(folder, rows, console)


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="The file to write. [default: RUN/report.html]")] = None,
) -> None:
    """Write a run's page: figures, advice, prompts and rollouts.

    It is the page of curro watch as one file that needs no network and no scripts. `curro train` writes it at
    its end. For a folder of several runs, writes the page of each, and one that compares them.
    """
    from curro.runs.report.compare import by_curriculum
    from curro.runs.report.page import write_comparison, write_report

    folders, console = _runs(run), plain_console()
    if len(folders) == 1:
        console.print(str(write_report(folders[0], out)))
        return
    for folder in folders:
        console.print(str(write_report(folder)))
    console.print(str(write_comparison(by_curriculum(folders), out or run / "report.html")))


def _runs(path: Path) -> list[RunFolder]:
    return [RunFolder.open(run) for run in (find_runs([path]) if path.is_dir() else [path])]


def _only_run(path: Path) -> RunFolder:
    runs = _runs(path)
    if len(runs) > 1:
        raise ConfigError(
            f"{path} holds {len(runs)} runs: name one of them, such as {runs[0].path}, or see all with curro "
            f"compare {path}"
        )
    return runs[0]

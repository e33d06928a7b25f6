"""How many rollouts every method needs for the same accuracy.

    python -m benchmarks.bench                     # all methods on all tasks, 5 seeds: one night on two cores
    python -m benchmarks.bench --smoke             # two minutes: the oracle has to beat uniform sampling
    python -m benchmarks.bench --task chains/hard --method frontier --method uniform --seeds 3

Each finished run is a row of OUT/results.parquet (OUT/search.parquet with `--tune`). After Ctrl-C the same
command continues. README.md in this folder says what is compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.bench.plan import METHODS, Cell, plan
from benchmarks.bench.results import Results, row_of
from benchmarks.bench.search import Search, scores_of, searched_methods, searches
from benchmarks.bench.tables import searched_sheets, sheets
from benchmarks.bench.tasks import TASKS, read_tasks, warm_rates
from rich.console import Console
from rich.table import Table

from curro.cli.options import Jobs
from curro.cli.side_by_side import TrainingRun, jobs_or_cores, run_all
from curro.cli.terminal import folder_name, progress_bar, quiet
from curro.core.errors import ConfigError, CurroError
from curro.core.text import printable
from curro.runs.folder import RunFolder

EVALUATIONS = 8
ROUND = 6
"""Runs started per search round, for each parallel worker."""
SMOKE_TASK, SMOKE_PROMPTS, SMOKE_ROLLOUTS = "locks/hard", 400, 2560
IN_THE_TERMINAL = (
    "method", "P", "G", "rate", "seeds", "tasks", "pass@1", "rollouts to uniform's level", "regret", "signal",
)  # fmt: skip


def bench(
    task: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A task: {', '.join(TASKS)}, or one of --task-file. Can be given several times. "
            "[default: all]"
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A method: {'; '.join(METHODS)}. Can be given several times; uniform always runs. "
            "[default: all]"
        ),
    ] = None,
    task_file: Annotated[
        Path | None, typer.Option(help="A TOML file of your own tasks, which replace the lab's.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds to train each method with on each task.")] = 5,
    rollouts: Annotated[
        int | None, typer.Option(help="The budget of each run. [default: the task's]")
    ] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="First search for the best prompts a step, rollouts per prompt and learning rate of each "
            "method on each task, with two seeds. The reported runs have other seeds.",
        ),
    ] = False,
    eval_prompts: Annotated[
        int, typer.Option(min=1, help="How many held-out prompts to evaluate on, with 4 samples each.")
    ] = 250,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for the results. [default: runs/bench, runs/bench-smoke or runs/bench-TASK_FILE]"
        ),
    ] = None,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke", help="Only check in two minutes that the oracle beats uniform sampling, on one task."
        ),
    ] = False,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Run nothing; print the tables of the results that are there."),
    ] = False,
) -> None:
    """Compare all methods on the tasks of the benchmark, with several seeds."""
    quiet()
    side_by_side = jobs_or_cores(jobs)
    if smoke and task_file:
        raise ConfigError("--smoke has a task of its own: leave out --task-file")
    if out is None:
        out = Path(
            f"runs/bench-{task_file.stem}" if task_file else "runs/bench-smoke" if smoke else "runs/bench"
        )
    if smoke:
        task, method = task or [SMOKE_TASK], method or ["uniform", "oracle", "inverted"]
        seeds, rollouts, eval_prompts = min(seeds, 2), rollouts or SMOKE_ROLLOUTS, min(eval_prompts, 200)
    results = Results.open(out / ("search.parquet" if tune else "results.parquet"))
    console = Console(markup=False, highlight=False)
    known = read_tasks(task_file) if task_file else TASKS
    if smoke:
        known = {
            name: replace(benchmark_task, prompts=SMOKE_PROMPTS) for name, benchmark_task in known.items()
        }
    cells = plan(task, method, seeds=1 if tune else seeds, rollouts=rollouts, available=known)
    wanted = searches(cells, seeds) if tune else []
    failed: list[str] = []
    if not summary:
        make = partial(_make, results=results, eval_prompts=eval_prompts, jobs=side_by_side, console=console)
        failed = search_rounds(wanted, results, side_by_side, make) if tune else list(make(cells).values())
    if not results.rows:
        raise ConfigError(f"{results.path} has no results yet")
    _show(results, wanted, console)
    for reason in failed:
        console.print(f"failed: {printable(reason)}", style="red")
    if failed:
        raise typer.Exit(1)


def search_rounds(
    wanted: list[Search], results: Results, jobs: int, make: Callable[[list[Cell]], dict[Cell, str]]
) -> list[str]:
    """Make the runs that the searches ask for, those of the first searches first; report what failed."""

    failed: dict[Cell, str] = {}
    while True:
        scores = scores_of(results, failed)
        cells = [cell for search in wanted for cell in search.missing(scores)]
        if not cells:
            return list(failed.values())
        failed |= make(cells[: ROUND * jobs])


def _make(
    cells: list[Cell], *, results: Results, eval_prompts: int, jobs: int, console: Console
) -> dict[Cell, str]:
    """Make the runs that are missing; returns what those that failed said."""

    folder = results.path.parent
    flags = {cell: cell.flags(evaluations=EVALUATIONS, eval_prompts=eval_prompts) for cell in cells}
    missing = [cell for cell in cells if not results.has(cell, " ".join(flags[cell]))]
    warm = {}
    for task in dict.fromkeys(cell.task for cell in missing):
        console.print(f"pass rates of the warm model on {task.name}")
        warm[task] = warm_rates(task, folder / "pools")
    runs = {TrainingRun(cell.title, _path(folder, cell), flags[cell]): cell for cell in missing}
    failed: dict[Cell, str] = {}
    with progress_bar(console) as bar:
        whole = bar.add_task("all runs", total=len(cells), completed=len(cells) - len(runs), latest="")

        def ended(run: TrainingRun) -> None:
            cell = runs[run]
            if run.complete:
                results.add(row_of(cell, " ".join(flags[cell]), RunFolder.open(run.path), warm[cell.task]))
                shutil.rmtree(run.path)
                run.log.unlink()
            else:
                failed[cell] = run.last_words()
            if run.task is not None:
                bar.remove_task(run.task)
            bar.advance(whole)

        run_all(list(runs), jobs, bar, ended)
    return failed


def _path(folder: Path, cell: Cell) -> Path:
    return folder / "runs" / folder_name(cell.title)


def _show(results: Results, wanted: list[Search], console: Console) -> None:
    tables = searched_sheets(searched_methods(results, wanted)) if wanted else sheets(results)
    for sheet in tables:
        shown = [i for i, column in enumerate(sheet.columns) if column in IN_THE_TERMINAL]
        table = Table(title=sheet.title)
        for i in shown:
            table.add_column(sheet.columns[i], justify="right" if i else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(row[i] for i in shown))
        console.print(table)


if __name__ == "__main__":
    try:
        typer.run(bench)
    except CurroError as error:
        raise SystemExit(f"benchmarks.bench: {error}") from None

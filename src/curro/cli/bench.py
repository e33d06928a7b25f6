"""`curro bench`: how many rollouts every method needs for the same accuracy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from curro.bench.plan import METHODS, Cell, plan
from curro.bench.task_file import read_tasks
from curro.bench.tasks import TASKS
from curro.cli.progress import progress_bar
from curro.cli.side_by_side import TrainingRun, jobs_or_cores, run_all
from curro.cli.train import quiet
from curro.errors import ConfigError
from curro.messages import printable
from curro.runs import RunFolder

if TYPE_CHECKING:
    from curro.bench.results import Results

EVALUATIONS = 8
SMOKE_TASK, SMOKE_ROLLOUTS = "locks/hard", 2560
IN_THE_TERMINAL = ("method", "seeds", "tasks", "pass@1", "rollouts to uniform's level", "regret", "signal")


def bench(
    task: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {', '.join(TASKS)}, or your own; may be repeated. [default: all]"),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help=f"Of {'; '.join(METHODS)}. May be repeated; uniform always runs. [default: all]"),
    ] = None,
    task_file: Annotated[
        Path | None, typer.Option(help="A TOML file of your own tasks, which replace the lab's.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method on each task.")] = 5,
    rollouts: Annotated[int | None, typer.Option(help="The budget of a run. [default: the task's]")] = None,
    tune: Annotated[
        list[float] | None,
        typer.Option(
            help="A multiple of the tasks' learning rates to try with seed 0 as well; may be repeated. "
            "The other seeds also run with what was best for each method."
        ),
    ] = None,
    eval_prompts: Annotated[int, typer.Option(min=1, help="Held-out prompts, 4 samples each.")] = 250,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side. [default: one a core, one on a GPU]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for the results. [default: runs/bench, -smoke or -TASK_FILE behind it]"),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Two minutes: uniform, oracle, inverted on one task.")
    ] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Run nothing: tables and page of the results there are.")
    ] = False,
) -> None:
    """Train with every method on every task, several seeds each, and say what each needs.

    Typed again after Ctrl-C, the same command goes on where it stopped.
    """
    quiet()
    from curro.bench.results import Results
    from curro.bench.tuning import finals, trials

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
    results = Results.open(out / "results.parquet")
    console = Console(markup=False, highlight=False)
    failed: list[str] = []
    if not summary:
        cells = plan(
            task, method, seeds=seeds, rollouts=rollouts, known=read_tasks(task_file) if task_file else TASKS
        )
        failed = _make(cells + trials(cells, tune or []), results, eval_prompts, side_by_side, console)
        if tune:
            failed += _make(finals(cells, results), results, eval_prompts, side_by_side, console)
    if not results.rows:
        raise ConfigError(f"{results.path} has no results yet")
    _show(results, out, console)
    for words in failed:
        console.print(f"failed: {printable(words)}", style="red")
    if failed:
        raise typer.Exit(1)


def _make(cells: list[Cell], results: Results, eval_prompts: int, jobs: int, console: Console) -> list[str]:
    """Make the runs that are missing; returns what those that failed said."""
    from curro.bench.pools import warm_rates
    from curro.bench.results import row_of

    folder = results.path.parent
    flags = {cell: cell.flags(evaluations=EVALUATIONS, eval_prompts=eval_prompts) for cell in cells}
    missing = [cell for cell in cells if not results.has(cell, " ".join(flags[cell]))]
    warm = {}
    for task in dict.fromkeys(cell.task for cell in missing):
        console.print(f"pass rates of the warm model on {task.name}")
        warm[task] = warm_rates(task, folder / "pools")
    runs = {TrainingRun(cell.title, _path(folder, cell), flags[cell]): cell for cell in missing}
    failed: list[str] = []
    with progress_bar(console) as bar:
        whole = bar.add_task("all runs", total=len(cells), completed=len(cells) - len(runs), latest="")

        def ended(run: TrainingRun) -> None:
            if run.complete:
                cell = runs[run]
                results.add(row_of(cell, " ".join(flags[cell]), RunFolder.open(run.path), warm[cell.task]))
                shutil.rmtree(run.path)
                run.log.unlink()
            else:
                failed.append(run.last_words())
            if run.task is not None:
                bar.remove_task(run.task)
            bar.advance(whole)

        run_all(list(runs), jobs, bar, ended)
    return failed


def _path(folder: Path, cell: Cell) -> Path:
    words = "".join(letter if letter.isalnum() else " " for letter in cell.title).split()
    return folder / "runs" / "-".join(words)


def _show(results: Results, out: Path, console: Console) -> None:
    from curro.bench.page import write_benchmark
    from curro.bench.tables import sheets

    for sheet in sheets(results):
        shown = [i for i, column in enumerate(sheet.columns) if column in IN_THE_TERMINAL]
        table = Table(title=sheet.title)
        for i in shown:
            table.add_column(sheet.columns[i], justify="right" if i else "left", overflow="fold")
        for row in sheet.rows:
            table.add_row(*(row[i] for i in shown))
        console.print(table)
    console.print(f"report: {write_benchmark(results, out / 'report.html')}")

"""`curro compare`: several curricula, the same budget of rollouts, the same seeds, one table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curro import registry
from curro.cli import train as options
from curro.cli.progress import progress_bar
from curro.cli.side_by_side import RunFailed, TrainingRun, jobs_or_cores, run_all
from curro.errors import ConfigError
from curro.runs import RunFolder

_NOT_SHARED = {"context", "curriculum", "advantage", "admission", "out", "resume", "seed"}


def _with_options_of_train(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every option of `curro train` that all runs share, in place of its `**shared`."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    of_train = inspect.signature(options.train, eval_str=True).parameters.values()
    parameters = [item for item in own if item.kind is not item.VAR_KEYWORD]
    parameters += [item for item in of_train if item.name not in _NOT_SHARED]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command


@_with_options_of_train
def compare(
    curricula: Annotated[
        list[str] | None,
        typer.Argument(
            help="Curricula, 'SELECTION advantage=... admission=...'; the first is the one to beat. "
            "[default: uniform frontier]"
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each curriculum, with seeds 0, 1, ...")] = 1,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side. [default: one a core, one on a GPU]")
    ] = None,
    out: Annotated[Path, typer.Option(help="A folder for all runs and the comparison.")] = Path(
        "runs/compare"
    ),
    **shared: Any,
) -> None:
    """Train with several curricula on one task and say how many rollouts each needs.

    Typed again after Ctrl-C, the same command goes on where it stopped.
    """
    options.quiet()
    from curro.report import comparison_table, render_comparison, write_comparison

    names = curricula or ["uniform", "frontier"]
    if len({options.slug(name) for name in names}) < len(names):
        raise ConfigError(
            "a curriculum stands twice in the comparison, or two have one folder's name: name each once"
        )
    side_by_side = jobs_or_cores(jobs)
    for name in names:
        for kind, spec in registry.parse_curriculum(name).items():
            registry.build(kind, spec)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in shared.items() if value is not None]
    runs = {
        (name, seed): TrainingRun(
            f"{name} seed {seed}",
            out / f"{options.slug(name)}-seed{seed}",
            [f"--curriculum={name}", f"--seed={seed}", *flags],
        )
        for seed in range(seeds)
        for name in names
    }
    console = Console(markup=False, highlight=False)
    with progress_bar(console) as bar:
        run_all(list(runs.values()), side_by_side, bar, _must_be_complete)
    folders = {name: [RunFolder.open(runs[name, seed].path) for seed in range(seeds)] for name in names}
    console.print(render_comparison(comparison_table(folders)))
    console.print(f"report: {write_comparison(folders, out / 'report.html')}")


def _must_be_complete(run: TrainingRun) -> None:
    if not run.complete:
        raise RunFailed(run.last_words())

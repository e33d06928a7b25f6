"""`curro compare`: several curricula, the same budget of rollouts, the same seeds, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from curro.cli.options import Config, Jobs, Trust, option_values, values_of_file, with_settings
from curro.cli.side_by_side import RunFailed, TrainingRun, jobs_or_cores, run_all
from curro.cli.terminal import folder_name, plain_console, progress_bar, quiet
from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.core.text import printable
from curro.runs.folder import RunFolder, find_runs, is_run
from curro.training.declared import flags_of
from curro.training.plan import check_names
from curro.training.settings import TrainSettings, known_settings

OWN = ("curriculum", "allocation", "advantage", "admission", "signal", "seed")
"""Settings in which the runs differ."""


@with_settings(*(name for name in known_settings() if name not in OWN))
def compare(
    curricula: Annotated[
        list[str] | None,
        typer.Argument(
            help="The curricula, each 'SELECTION allocation=... advantage=... admission=...' with one or "
            "more of its parts. The others are compared with the first. Or folders of runs that are there: "
            "they are compared without training. [default: uniform frontier]"
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many seeds (0, 1, ...) to train each curriculum with. One seed says little: two runs "
            "of one method often differ as much as two methods. From 5 on there are intervals. [default: 2]",
        ),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="The folder for all runs and for the comparison's page.")] = Path(
        "runs/compare"
    ),
    config: Config = None,
    trust: Trust = False,
    **options: Any,
) -> None:
    """Train with several curricula on one task and compare them.

    All runs have the same settings, the same budget of rollouts and the same seeds. A table shows the
    accuracy of each curriculum and the rollouts it needs to reach the final accuracy of the first. If a run
    fails, the others go on. After Ctrl-C, the same command continues.
    """
    names = curricula or ["uniform", "frontier"]
    folders = [name for name in names if _holds_runs(Path(name))]
    if len(folders) == len(names):
        asked = {**options, "seeds": seeds, "jobs": jobs, "config": config}
        if unread := [f"--{name.replace('_', '-')}" for name, value in asked.items() if value is not None]:
            raise ConfigError(
                f"these folders hold runs, which are compared as they are: leave out {', '.join(unread)}, or "
                "name curricula to train"
            )
        from curro.runs.report.compare import by_curriculum

        paths = [Path(name) for name in names]
        runs_there = by_curriculum(RunFolder.open(path) for path in find_runs(paths))
        _show(runs_there, paths[0] if len(paths) == 1 else out)
        return
    if len({folder_name(name) for name in names}) < len(names):
        raise ConfigError(
            "a curriculum stands twice in the comparison, or two have one folder's name: name each once"
        )
    for name in names:
        for kind, spec in registry.parse_curriculum(name).items():
            registry.build(kind, spec)
    if config is None:
        of_file: dict[str, Any] = {}
        settings = TrainSettings(**option_values(options))
        check_names(settings)
        settings.check_model()
    else:
        of_file = {name: value for name, value in values_of_file(config, trust).items() if name not in OWN}
        settings = TrainSettings.of({**of_file, **option_values(options)}, str(config))
    if settings.eval_data is None and settings.family is None:
        raise ConfigError("a comparison is of held-out pass@1: name held-out prompts with --eval-data")
    left = {name: value for name, value in of_file.items() if options.get(name) is None}
    flags = [*flags_of(left), *flags_of(options)]
    check_writable(out)
    runs = {
        name: [
            TrainingRun(
                f"{name} seed {seed}",
                out / f"{folder_name(name)}-seed{seed}",
                [f"--curriculum={name}", f"--seed={seed}", *flags],
            )
            for seed in range(seeds or 2)
        ]
        for name in names
    }
    side_by_side = jobs_or_cores(jobs)
    quiet()
    failed: list[str] = []

    def ended(run: TrainingRun) -> None:
        if not run.begun:
            raise RunFailed(run.last_words())
        if not run.complete:
            failed.append(run.last_words())

    console = plain_console()
    with progress_bar(console) as bar:
        run_all(
            [run for of_seed in zip(*runs.values(), strict=True) for run in of_seed], side_by_side, bar, ended
        )
    for reason in failed:
        console.print(f"failed: {printable(reason)}", style="red")
    complete = {
        name: [RunFolder.open(run.path) for run in runs_of_name if run.complete]
        for name, runs_of_name in runs.items()
    }
    if any(complete.values()):
        _show({name: folders for name, folders in complete.items() if folders}, out)
    if failed:
        raise typer.Exit(1)


def _holds_runs(path: Path) -> bool:
    return path.is_dir() and (is_run(path) or any(map(is_run, path.iterdir())))


def _show(runs: dict[str, list[RunFolder]], out: Path) -> None:
    """Print the table of a comparison, and write its page."""
    from curro.runs.report.compare import changed_data, comparison_table, render_comparison
    from curro.runs.report.page import write_comparison

    console = plain_console()
    console.print(render_comparison(comparison_table(runs)))
    for sentence in changed_data(folder for of_name in runs.values() for folder in of_name):
        console.print(printable(sentence), style="yellow")
    console.print(f"report: {write_comparison(runs, out / 'report.html')}")

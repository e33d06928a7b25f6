"""`curro train`: one run."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from curro.cli.options import Config, Trust, option_values, values_of_file, with_settings
from curro.cli.terminal import accuracy, describe, folder_name, plain_console, progress_bar, quiet
from curro.core.errors import ConfigError
from curro.core.files import check_writable, refuse_links
from curro.core.text import printable
from curro.runs.folder import RunFolder
from curro.training.settings import TrainSettings

if TYPE_CHECKING:
    from curro.training.plan import Plan


@with_settings()
def train(
    config: Config = None,
    out: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Output",
            help="The run's folder, which must be new or empty. [default: runs/DATA-CURRICULUM-SEED]",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Output",
            help="Continue the run in this folder, with the settings that it was started with.",
        ),
    ] = None,
    check_rows: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            rich_help_panel="Reward",
            help="Score 200 rows with their own answers and with nothing first, and stop if the reward does "
            "not fit more than 1% of them.",
        ),
    ] = True,
    trust: Trust = False,
    **options: Any,
) -> None:
    """Train a model on the prompts that a curriculum chooses.

    The run's folder holds the metrics, the prompt table, checkpoints, the trained model and a report.
    Ctrl-C ends the run after the current step and saves it; --resume continues it.
    """
    from curro.training.plan import plan
    from curro.training.trust import check, resume_command

    if resume is not None:
        _refuse_others({"config": config, "out": out, **options})
        folder = RunFolder.open(resume)
        refuse_links(folder.path)
        settings = TrainSettings.of(folder.settings, f"{resume}/config.json")
        if not trust:
            check(settings, f"{resume}/config.json")
    else:
        values = option_values(options)
        if config is None:
            settings = TrainSettings(**values)
        else:
            settings = TrainSettings.of({**values_of_file(config, trust), **values}, str(config))
        folder = RunFolder(out or Path("runs") / _name(settings))
        folder.check_unused()
        check_writable(folder.path)
    quiet()
    planned = plan(settings)  # before torch is imported, which takes seconds
    if resume is None:
        planned.check_success()
    from curro.reward.row_checks import check_before_run
    from curro.runs.reader import read_history
    from curro.runs.report.advice import advise

    if check_rows and resume is None and planned.environment is None:
        console = plain_console()
        check_before_run(
            planned.prompts, planned.reward, lambda line: console.print(printable(line)), must_run=True
        )
    from curro.training.run import train as run

    settings = planned.settings
    if resume is None:
        folder = RunFolder.create(folder.path, _config(planned))
    console = plain_console()
    console.print(f"run folder {folder.path}")
    if settings.reward == "auto" and planned.environment is None:
        chosen = planned.reward.name
        console.print(printable(f"reward {chosen}; name another one with --reward"))
    with progress_bar(console) as bar:
        reached = (folder.latest() or {"rollouts": 0})["rollouts"]
        whole = settings.steps * settings.rollouts_per_step
        task = bar.add_task("training", total=whole, completed=reached, latest="")

        def on_step(line: dict[str, Any]) -> None:
            bar.update(task, completed=line["rollouts"], latest=describe(line))
            scores = accuracy(line)
            if scores is not None:
                console.print(scores)

        def say(sentence: str) -> None:
            console.print(printable(sentence))

        with _leaving_nothing(folder) if resume is None else nullcontext():
            is_complete = run(planned, folder, resume=resume is not None, on_step=on_step, say=say)
    for finding in advise(read_history(folder)):
        console.print(printable(f"{finding.problem} {finding.advice}"), style="yellow")
    if is_complete:
        console.print(f"done: model, table and report are in {folder.path}")
    else:
        console.print(f"saved; go on with: {resume_command(settings, folder.path)}")
        raise typer.Exit(130)


@contextmanager
def _leaving_nothing(folder: RunFolder) -> Iterator[None]:
    """Remove the folder of a run that fails in its first step, so that its command can start again.

    A run of a comparison keeps it once there is a line in it: the comparison counts it as begun, and the same
    command goes on with it.
    """
    try:
        yield
    except BaseException:
        is_compared = multiprocessing.parent_process() is not None
        if not folder.has_progress() and not (is_compared and folder.latest()):
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _name(settings: TrainSettings) -> str:
    """The default name of a run's folder."""
    data = settings.data if settings.family is not None else Path(settings.data).name
    return f"{folder_name(data)}-{folder_name(settings.curriculum)}-seed{settings.seed}"


def _refuse_others(options: dict[str, Any]) -> None:
    """Raises ConfigError where options stand beside --resume, which takes a run as it was started."""
    others = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if others:
        raise ConfigError(
            "--resume goes on with the settings that the run was started with: leave out "
            f"{', '.join(others)}, or start another run with --out"
        )


def _config(planned: Plan) -> dict[str, Any]:
    packages = ("curro", "torch", "transformers", "trl", "numpy")
    return {
        "command": sys.argv[1:],
        "settings": planned.settings.as_dict(),
        "steps": planned.settings.steps,
        "curriculum": planned.curriculum.config,
        "versions": {name: version(name) for name in packages},
    }

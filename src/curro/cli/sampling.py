"""Sampling a whole data set with a progress bar: what `curro estimate` and `curro evaluate` share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curro.cli.terminal import progress_bar
from curro.core.errors import ConfigError
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.lock import only_process
from curro.training.evaluation.estimate import SamplingJob

ServerAddress = Annotated[
    str | None,
    typer.Option(
        help="Ask the OpenAI-compatible server at this address, http://..., instead of a model here. "
        "Its key is read from the environment variable CURRO_SERVER_KEY."
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="How many completions go through a local model at once.")]


def sample_all(
    job: SamplingJob,
    path: Path,
    settings: Mapping[str, Any],
    console: Console,
    *,
    title: str,
    least: int = 1,
) -> EstimateFolder:
    """Sample and score into an estimate's folder what is not there yet, with a progress bar.

    Args:
        path: the folder: new, empty, or of these settings.
        settings: what the folder says of the estimate beside the job's own.
        least: how many rollouts a prompt needs to be done; one that has fewer is sampled again.

    Raises:
        LockedError: another process samples into the folder.
        CurroError: the folder holds something else, the model cannot be loaded, or some prompts got no
            rollout.
    """
    folder, prompts, settings = EstimateFolder(path), len(job.prompts), {**settings, **job.settings}
    folder.check(settings)

    def are_done() -> set[int]:
        return {i for i, row in folder.groups().items() if row["rollouts"] >= least}

    if len(are_done()) == prompts:
        return folder
    work = job.load()  # before the folder is made, so that a mistyped model leaves none behind
    is_new = not folder.has_settings
    folder = EstimateFolder.begin(path, settings)
    with only_process(folder.path), progress_bar(console) as bar:
        done = are_done()  # now that no other process adds to them
        todo = [i for i in range(prompts) if i not in done]
        task = bar.add_task(title, total=prompts, completed=len(done), latest="")
        counts: Counter[str] = Counter()
        is_interrupted, reasons = False, list[str]()

        def on_group(row: dict[str, Any]) -> None:
            folder.append(row)
            counts.update(done=1, never=row["variance"] == 0 == row["mean"])
            bar.update(task, advance=1, latest=f"without any reward {counts['never'] / counts['done']:.2f}")

        try:
            reasons = work(todo, on_group)
        except KeyboardInterrupt:
            is_interrupted = True
        except BaseException:
            if is_new and not counts["done"]:  # it would refuse the same command with another model
                folder.remove()
            raise
    if is_interrupted:
        console.print(f"saved {len(done) + counts['done']} of {prompts} prompts; the same command goes on")
        raise typer.Exit(130)
    if reasons:
        raise ConfigError(
            f"{len(reasons)} of {prompts} prompts got no rollout ({reasons[0]:.200}); the same command asks "
            "for theirs again"
        )
    return folder

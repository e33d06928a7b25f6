"""Sampling a whole data set with a progress bar: what `curro estimate` and `curro evaluate` share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curro.cli.terminal import progress_bar
from curro.core.errors import ConfigError
from curro.data import PromptSet
from curro.reward import Reward
from curro.reward.environments import Environment
from curro.rollout.engines.engine import Engine, SamplingSettings
from curro.rollout.engines.models import local_model, server_engine
from curro.runs.estimate_folder import EstimateFolder
from curro.runs.lock import only_process

ServerAddress = Annotated[
    str | None,
    typer.Option(
        help="Ask the OpenAI-compatible server at this address, http://..., instead of a model here. "
        "Its key is read from the environment variable CURRO_SERVER_KEY."
    ),
]
TopP = Annotated[
    float, typer.Option(help="Sample from the most likely tokens whose probabilities add up to this.")
]
BatchSize = Annotated[int, typer.Option(min=1, help="How many completions go through a local model at once.")]
Connections = Annotated[int, typer.Option(min=1, help="How many requests to make to a server at once.")]
Timeout = Annotated[float, typer.Option(help="Seconds that a request to a server may take.")]

OnGroup = Callable[[dict[str, Any]], None]
Work = Callable[[Sequence[int], OnGroup], list[str]]
"""Samples and scores the prompts of these numbers; returns why prompts got no rollout, each of them."""


@dataclass(frozen=True)
class SamplingJob:
    """Some rollouts of every prompt of a data set, by one model, scored.

    Attributes:
        environment: plays the prompts, for tasks of several turns; only with a model here.
        model: its name; with a server, its name there.
        k: rollouts of each prompt.
        batch: completions that go through a model here at once.
        connections, timeout: requests that a server gets at once, and the seconds that one may take.
    """

    prompts: PromptSet
    reward: Reward
    environment: Environment | None
    model: str
    server: str | None
    sampling: SamplingSettings
    k: int
    batch: int
    connections: int
    timeout: float
    seed: int
    threads: int

    @property
    def settings(self) -> dict[str, Any]:
        """What an estimate's folder says of it, beside the names of the data, the model and the reward."""
        return {
            "prompts": len(self.prompts),
            "fingerprint": self.prompts.fingerprint,
            "k": self.k,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "seed": None if self.server else self.seed,
        }

    def load(self) -> Work:
        """Load the model, or find its server's client.

        Raises:
            ConfigError: there is no such model, a server is asked for episodes, or prompts have images.
        """
        from curro.training.plan import check_text

        if self.server is None:
            check_text(self.prompts, "a model here reads text alone: ask a --server, or take text data")
            return self._local()
        check_text(
            self.prompts,
            "a server gets the messages alone: put images there, as parts with an image_url",
            are_messages_text=False,
        )
        if self.environment is not None:
            raise ConfigError(
                "a server answers in one turn, and these prompts have several: name a model here"
            )
        return self._served(
            server_engine(
                self.server, self.model, self.sampling, connections=self.connections, timeout=self.timeout
            )
        )

    def _local(self) -> Work:
        from curro.training.evaluation.estimate import estimate_here

        loaded = local_model(self.model, threads=self.threads)

        def work(todo: Sequence[int], on_group: OnGroup) -> list[str]:
            return estimate_here(
                *loaded,
                self.prompts,
                self.reward,
                environment=self.environment,
                settings=self.sampling,
                k=self.k,
                todo=todo,
                batch=self.batch,
                seed=self.seed,
                on_group=on_group,
            )

        return work

    def _served(self, engine: Engine) -> Work:
        from curro.training.evaluation.estimate import estimate

        def work(todo: Sequence[int], on_group: OnGroup) -> list[str]:
            async def whole() -> list[str]:
                options: dict[str, Any] = {"k": self.k, "todo": todo, "in_flight": self.connections}
                try:
                    return await estimate(engine, self.prompts, self.reward, **options, on_group=on_group)
                finally:
                    await engine.close()

            return asyncio.run(whole())

        return work


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
        title: of the progress bar.
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

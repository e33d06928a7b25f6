"""Sampling a whole data set with a progress bar: what `curro estimate` and `curro evaluate` share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from curro.cli.terminal import progress_bar
from curro.data import PromptSet
from curro.environments import Environment
from curro.errors import ConfigError
from curro.evaluation.estimate import estimate, estimate_episodes
from curro.evaluation.estimate_folder import EstimateFolder
from curro.reward import Reward
from curro.rollout.engines.engine import Engine, SamplingSettings
from curro.rollout.engines.models import local_engine, local_model, server_engine

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
Work = Callable[[Sequence[int], OnGroup], int]
"""Samples and scores the prompts of these numbers; returns how many got no rollout."""


def sampler(
    model: str,
    server: str | None,
    prompts: PromptSet,
    reward: Reward,
    environment: Environment | None,
    settings: SamplingSettings,
    *,
    k: int,
    batch: int,
    connections: int,
    timeout: float,
    seed: int,
    threads: int,
) -> Work:
    """k rollouts of a prompt, by the model of that name here or on the server; episodes by one here alone."""
    if environment is not None and server is not None:
        raise ConfigError("a server answers in one turn, and these prompts have several: name a model here")
    if environment is not None:
        loaded = local_model(model, threads=threads)

        def episodes(todo: Sequence[int], on_group: OnGroup) -> int:
            options: dict[str, Any] = {"k": k, "todo": todo, "batch": batch, "seed": seed}
            estimate_episodes(*loaded, prompts, environment, settings, **options, on_group=on_group)
            return 0

        return episodes
    if server is not None:
        engine = server_engine(server, model, settings, connections=connections, timeout=timeout)
        return _rollouts(engine, prompts, reward, k, connections)
    engine = local_engine(model, settings, batch=batch, seed=seed, threads=threads)
    return _rollouts(engine, prompts, reward, k, -(-2 * batch // k))


def _rollouts(engine: Engine, prompts: PromptSet, reward: Reward, k: int, in_flight: int) -> Work:
    def work(todo: Sequence[int], on_group: OnGroup) -> int:
        async def whole() -> int:
            try:
                return await estimate(
                    engine, prompts, reward, k=k, todo=todo, in_flight=in_flight, on_group=on_group
                )
            finally:
                await engine.close()

        return asyncio.run(whole())

    return work


def sample_all(
    work: Work,
    folder: EstimateFolder,
    todo: Sequence[int],
    *,
    prompts: int,
    title: str,
    console: Console,
    keep_texts: bool = False,
) -> None:
    """Sample and score into the folder, with a progress bar.

    Args:
        todo: the numbers of the prompts that are not done yet.
        prompts: how many there are.
        keep_texts: keep the completions in the folder too.
    """
    with progress_bar(console) as bar:
        task = bar.add_task(title, total=prompts, completed=prompts - len(todo), latest="")
        counts: Counter[str] = Counter()

        def on_group(row: dict[str, Any]) -> None:
            folder.append(row, keep_texts=keep_texts)
            counts.update(done=1, never=row["variance"] == 0 == row["mean"])
            bar.update(task, advance=1, latest=f"without any reward {counts['never'] / counts['done']:.2f}")

        try:
            left_out = work(todo, on_group) if todo else 0
        except KeyboardInterrupt:
            left_out = -1
    if left_out < 0:
        done = prompts - len(todo) + counts["done"]
        console.print(f"saved {done} of {prompts} prompts; the same command goes on")
        raise typer.Exit(130)
    if left_out:
        raise ConfigError(
            f"{left_out} of {prompts} prompts got no rollout; the same command asks for theirs again"
        )

"""`curro estimate`: how often a model solves each prompt of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from curro.cli.options import option_values, with_settings
from curro.cli.sampling import BatchSize, ServerAddress, sample_all
from curro.cli.terminal import folder_name, plain_console, quiet
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.data import load_prompts
from curro.reward.environments import resolve_environment
from curro.reward.resolve import outcome_reward
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.engines.models import weights_digest
from curro.runs.estimate_folder import render
from curro.training.evaluation.estimate import SamplingJob
from curro.training.plan import check_names, run_reward
from curro.training.settings import TrainSettings

if TYPE_CHECKING:
    import pyarrow as pa

SHARED = (
    *("model", "limit", "reward", "sandbox", "reward_workers", "reward_seconds", "reward_memory"),
    *("environment", "max_completion_length", "temperature"),
    *("prompt_column", "answer_column", "key_column", "threads", "seed"),
)
"""Settings of `curro train` that an estimate has too."""


@with_settings(*SHARED)
def estimate(
    data: Annotated[
        str,
        typer.Argument(
            help="The prompts: lab:NAME, a JSONL or Parquet file, a folder, or a data set's id on the "
            "Hugging Face Hub."
        ),
    ],
    server: ServerAddress = None,
    server_model: Annotated[str | None, typer.Option(help="The name of the model on the server.")] = None,
    k: Annotated[
        int,
        typer.Option(
            "--rollouts-per-prompt", "-k", min=1, help="How many completions of each prompt to sample."
        ),
    ] = 16,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The estimate's folder. [default: estimates/DATA-MODEL]"),
    ] = None,
    batch: BatchSize = 64,
    **options: Any,
) -> None:
    """Measure how often a model solves each prompt of a data set.

    The estimate's folder holds a line for each prompt and, at the end, a table of pass rates. After
    Ctrl-C, the same command continues.
    """
    quiet()
    settings = TrainSettings(data=data, **option_values(options))
    if settings.model is not None and server is not None:
        raise ConfigError("name a --model or a --server, not both")
    if server is None and server_model is not None:
        raise ConfigError("--server-model is the name of a model on a server: name that with --server")
    if server is not None and server_model is None:
        raise ConfigError(f"name the model to ask for at {server}: --server-model")
    check_names(settings)
    if out is not None:
        check_writable(out)
    prompts = load_prompts(data, limit=settings.limit, **settings.columns)
    complete = settings.complete(len(prompts))
    reward = run_reward(settings.reward, settings, prompts)
    if server is None:
        complete.check_model()
    model = str(complete.model if server is None else server_model)
    job = SamplingJob(
        prompts,
        outcome_reward(reward),
        resolve_environment(settings.environment, prompts),
        model,
        server,
        SamplingSettings(complete.max_completion_length or 1, settings.temperature),
        k=k,
        batch=batch,
        seed=settings.seed,
        threads=settings.threads,
    )
    recorded = {
        "data": data, "limit": settings.limit, "columns": settings.columns,
        "model": None if server else model, "weights": None if server else weights_digest(model),
        "server_model": model if server else None, "reward": reward.name,
        "max_completion_length": job.sampling.max_new_tokens,
    }  # fmt: skip
    path = out or Path("estimates") / f"{folder_name(data)}-{folder_name(model)}"
    console = plain_console()
    console.print(f"estimate folder {path}")
    if job.reward is not reward:
        recorded["pass_rates_of"] = job.reward.name
        console.print(f"pass rates are of {job.reward.name}, the part of the reward that verifies the answer")
    folder = sample_all(job, path, recorded, console, title="estimating")
    table = folder.write_table()
    for sentence in _findings(job, table):
        console.print(sentence)
    console.print(f"table: {folder.path / 'pass_rates.parquet'}")


def _findings(job: SamplingJob, table: pa.Table) -> Iterator[RenderableType]:
    """What the table of pass rates shows, for the terminal."""
    yield render(table["mean"].to_numpy(), table["variance"].to_numpy(), job.k)
    rollouts = sum(table["rollouts"].to_pylist())
    if lost := len(job.prompts) * job.k - rollouts:
        yield f"{lost} rollouts failed and are not counted"
    cut = sum(table["truncated"].to_pylist()) / max(1, rollouts)
    yield f"{cut:.1%} of the completions were cut at {job.sampling.max_new_tokens} tokens"

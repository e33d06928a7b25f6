"""`curro estimate`: how often a model solves each prompt of a data set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType

from curro.cli.checks import check_start
from curro.cli.options import option_values, with_settings
from curro.cli.sampling import (
    BatchSize,
    Connections,
    SamplingJob,
    ServerAddress,
    Timeout,
    TopP,
    sample_all,
)
from curro.cli.terminal import folder_name, plain_console, progress_bar, quiet
from curro.core.errors import ConfigError
from curro.core.files import check_writable
from curro.training.settings import TrainSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from curro.runs.estimate_folder import EstimateFolder
    from curro.training.evaluation.confidence import Confidence
    from curro.training.sft import SFTSettings

SHARED = (
    *("model", "limit", "reward", "sandbox", "reward_workers", "reward_seconds", "reward_memory"),
    *("environment", "max_completion_length", "temperature", "precision"),
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
    top_p: TopP = 1.0,
    batch: BatchSize = 64,
    connections: Connections = 64,
    timeout: Timeout = 600.0,
    keep_texts: Annotated[
        bool,
        typer.Option(
            "--keep-texts",
            help="Also keep every completion with its score, in completions.jsonl, of which "
            "`curro curate --solutions` makes a set of worked answers.",
        ),
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Also say how sure the model is of each prompt's answer, from one forward pass over it, as "
            "the columns confidence and confidence_score, and how well that ranks the pass rates.",
        ),
    ] = False,
    room: Annotated[
        bool,
        typer.Option(
            "--room",
            help="Also measure the pool's room for this model: train a copy on the answers of most prompts, "
            "and measure it on the others before and after.",
        ),
    ] = False,
    room_answers: Annotated[
        int, typer.Option(min=1, help="With --room: how many answers to train on, in batches of 16.")
    ] = 1_440,
    room_learning_rate: Annotated[
        float, typer.Option(help="With --room: the learning rate of AdamW.")
    ] = 3e-5,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="ORG/NAME",
            help="Then write the table of pass rates, with a card, into this data set on the Hugging Face "
            "Hub; it is public unless it is there and private.",
        ),
    ] = None,
    **options: Any,
) -> None:
    """Measure how often a model solves each prompt of a data set.

    The estimate's folder holds a line for each prompt and, at the end, a table of pass rates. After
    Ctrl-C, the same command continues.
    """
    quiet()
    asked = TrainSettings(data=data, **option_values(options))
    if asked.model is not None and server is not None:
        raise ConfigError("name a --model or a --server, not both")
    if asked.precision is not None and not room:
        raise ConfigError(
            "--precision is of the training that --room asks for, and an estimate of pass rates has none: "
            "leave it out, or add --room"
        )
    if server is not None and server_model is None:
        raise ConfigError(f"name the model to ask for at {server}: --server-model")
    check_start(asked)
    from curro.data import load_prompts
    from curro.reward.environments import resolve_environment
    from curro.reward.resolve import outcome_reward
    from curro.rollout.engines.engine import SamplingSettings
    from curro.rollout.engines.models import weights_digest
    from curro.training.evaluation.estimate_hub import check_push
    from curro.training.evaluation.estimate_hub import push as push_estimate
    from curro.training.evaluation.expectations import describe_visits
    from curro.training.inputs import run_reward

    if push is not None:
        check_push(push)
    if out is not None:
        check_writable(out)
    prompts = load_prompts(data, limit=asked.limit, **asked.columns)
    complete = asked.complete(len(prompts))
    reward = run_reward(asked.reward, asked, prompts)
    scored_by = outcome_reward(reward)
    if server is None:
        complete.check_model()
    model = str(complete.model if server is None else server_model)
    job = SamplingJob(
        prompts,
        scored_by,
        resolve_environment(asked.environment, prompts),
        model,
        server,
        SamplingSettings(complete.max_completion_length or 1, asked.temperature, top_p),
        k=k,
        batch=batch,
        connections=connections,
        timeout=timeout,
        seed=asked.seed,
        threads=asked.threads,
    )
    if keep_texts and job.environment is not None:
        raise ConfigError("--keep-texts keeps answers of one turn: leave it out for tasks of several turns")
    training = _training(job, asked, room_learning_rate) if room else None
    if confidence:
        _check_confidence(job)
    settings = {
        "data": data, "limit": asked.limit, "columns": asked.columns, "model": None if server else model,
        "weights": None if server else weights_digest(model), "server_model": model if server else None,
        "reward": reward.name, "max_completion_length": job.sampling.max_new_tokens,
    }  # fmt: skip
    if scored_by is not reward:
        settings["pass_rates_of"] = scored_by.name
    if keep_texts:
        settings["keep_texts"] = True
    path = out or Path("estimates") / f"{folder_name(data)}-{folder_name(model)}"
    console = plain_console()
    console.print(f"estimate folder {path}")
    if scored_by is not reward:
        console.print(f"pass rates are of {scored_by.name}, the part of the reward that verifies the answer")
    folder = sample_all(job, path, settings, console, title="estimating", keep_texts=keep_texts)
    sure = _confidence(job) if confidence else None
    table = folder.write_table({} if sure is None else sure.columns)
    for sentence in _findings(job, table, sure):
        console.print(sentence)
    console.print(describe_visits(asked.rollouts, complete.rollouts_per_prompt or 1, len(prompts)))
    console.print(f"table: {folder.path / 'pass_rates.parquet'}")
    if training is not None:
        _measure_room(job, training, room_answers, folder, table, console)
    if push is not None:
        console.print(f"pushed to {push_estimate(folder, push)}")


def _training(job: SamplingJob, asked: TrainSettings, learning_rate: float) -> SFTSettings:
    """The training by which the room is measured.

    Raises:
        ConfigError: the room of these prompts cannot be measured.
    """
    from curro.training.room import check_answers
    from curro.training.sft import SFTSettings

    if not job.is_answered_here:
        raise ConfigError("--room trains a model on answers: it needs a --model here, and no environment")
    check_answers(job.prompts)
    return SFTSettings(
        asked.data,
        job.model,
        asked.columns,
        learning_rate=learning_rate,
        precision=asked.precision,
        threads=asked.threads,
        seed=asked.seed,
    )


def _measure_room(
    job: SamplingJob,
    training: SFTSettings,
    answers: int,
    folder: EstimateFolder,
    table: pa.Table,
    console: Console,
) -> None:
    """Measure the room, say it, and write it into the folder."""
    from curro.core.files import replacing
    from curro.rollout.engines.models import precision_warning
    from curro.training.room import measure_room

    warning = precision_warning(training.precision)
    if warning is not None:
        console.print(warning)
    with progress_bar(console) as bar:
        task = bar.add_task("training on answers", total=None, latest="")
        measured = measure_room(
            training,
            job.prompts,
            job.reward,
            job.sampling,
            rates_P=table["mean"].to_numpy(),
            answers=answers,
            on_step=lambda step, steps, loss: bar.update(
                task, completed=step, total=steps, latest=f"loss {loss:.3f}"
            ),
        )
    for sentence in measured.describe():
        console.print(sentence)
    with replacing(folder.path / "room.json") as part:
        part.write_text(json.dumps(measured.as_dict(), indent=2) + "\n", encoding="utf-8")


def _check_confidence(job: SamplingJob) -> None:
    """Raises ConfigError where the model's confidence cannot be measured."""
    from curro.training.evaluation.confidence import Confidence

    if not job.is_answered_here:
        raise ConfigError("--confidence reads answers with a --model here, and no environment: leave it out")
    Confidence.check(job.prompts)


def _confidence(job: SamplingJob) -> Confidence:
    """How sure the model is of the answers."""
    from curro.rollout.engines.models import local_model
    from curro.training.evaluation.confidence import Confidence

    return Confidence.measure(*local_model(job.model, threads=job.threads), job.prompts, batch=job.batch)


def _findings(job: SamplingJob, table: pa.Table, sure: Confidence | None) -> Iterator[RenderableType]:
    """What the table of pass rates shows, for the terminal."""
    import numpy as np

    from curro.runs.estimate_folder import are_pass_rates, render
    from curro.training.evaluation.expectations import Guesser

    means, variances = (table[name].to_numpy() for name in ("mean", "variance"))
    yield render(means, variances, job.k)
    if sure is not None:
        yield sure.describe(means)
    rollouts = sum(table["rollouts"].to_pylist())
    if lost := len(job.prompts) * job.k - rollouts:
        yield f"{lost} rollouts failed and are not counted"
    cut = sum(table["truncated"].to_pylist()) / max(1, rollouts)
    yield f"{cut:.1%} of the completions were cut at {job.sampling.max_new_tokens} tokens"
    guesser = Guesser.of([row["answer"] for row in job.prompts], job.k)
    if guesser is not None and are_pass_rates(means, variances):
        solved = float(np.mean([count > 0 for count in table["correct"].to_pylist()]))
        yield from guesser.describe(means, solved)

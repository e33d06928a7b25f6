"""`curro estimate`: how often a model solves each prompt of a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from curro.cli.options import option_values, with_settings
from curro.cli.sampling import (
    BatchSize,
    Connections,
    ServerAddress,
    Timeout,
    TopP,
    sample_all,
    sampler,
)
from curro.cli.terminal import folder_name, plain_console, progress_bar, quiet
from curro.errors import ConfigError
from curro.storage.files import check_writable
from curro.training.settings import TrainSettings

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
    import numpy as np

    from curro.data import load_prompts
    from curro.environments import resolve_environment
    from curro.evaluation.estimate_folder import EstimateFolder, are_pass_rates, render
    from curro.evaluation.estimate_hub import check_push
    from curro.evaluation.estimate_hub import push as push_estimate
    from curro.evaluation.expectations import Guesser, describe_visits
    from curro.reward.resolve import outcome_reward
    from curro.rollout.engines.engine import SamplingSettings
    from curro.rollout.engines.models import weights_digest
    from curro.training.inputs import run_reward

    if push is not None:
        check_push(push)
    if out is not None:
        check_writable(out)
    asked = TrainSettings(data=data, **option_values(options))
    model = asked.model
    if model is not None and server is not None:
        raise ConfigError("name a --model or a --server, not both")
    if server is not None and server_model is None:
        raise ConfigError(f"name the model to ask for at {server}: --server-model")
    prompts = load_prompts(data, limit=asked.limit, **asked.columns)
    complete = asked.complete(len(prompts))
    reward = run_reward(asked.reward, asked, prompts)
    scored_by = outcome_reward(reward)
    model = complete.model if server is None else None
    if model is None and server is None:
        raise ConfigError(
            f"name a model for {data}: --model with a folder, a hub id or lab:NAME, or a --server"
        )
    environment = resolve_environment(asked.environment, prompts)
    if keep_texts and environment is not None:
        raise ConfigError("--keep-texts keeps answers of one turn: leave it out for tasks of several turns")
    if room:
        if model is None or environment is not None:
            raise ConfigError("--room trains a model on answers: it needs a --model here, and no environment")
        from curro.training.room import check_answers
        from curro.training.sft import SFTSettings

        check_answers(prompts)
        training = SFTSettings(
            data, model, asked.columns, learning_rate=room_learning_rate, precision=asked.precision,
            threads=asked.threads, seed=asked.seed,
        )  # fmt: skip
    if confidence:
        if model is None or environment is not None:
            raise ConfigError(
                "--confidence reads answers with a --model here, and no environment: leave it out"
            )
        from curro.evaluation.confidence import Confidence

        Confidence.check(prompts)
    sampling = SamplingSettings(complete.max_completion_length or 1, asked.temperature, top_p)
    settings = {
        "data": data, "limit": asked.limit, "columns": asked.columns, "fingerprint": prompts.fingerprint,
        "prompts": len(prompts), "model": model, "weights": weights_digest(model) if model else None,
        "server_model": server_model if server else None, "k": k, "reward": reward.name,
        "max_completion_length": sampling.max_new_tokens, "temperature": asked.temperature, "top_p": top_p,
        "seed": None if server else asked.seed,
    }  # fmt: skip
    if scored_by is not reward:
        settings["pass_rates_of"] = scored_by.name
    if keep_texts:
        settings["keep_texts"] = True
    name = f"{folder_name(data)}-{folder_name(model or str(server_model))}"
    work = sampler(
        str(model or server_model),
        server,
        prompts,
        scored_by,
        environment,
        sampling,
        k=k,
        batch=batch,
        connections=connections,
        timeout=timeout,
        seed=asked.seed,
        threads=asked.threads,
    )
    folder = EstimateFolder.begin(out or Path("estimates") / name, settings)
    done = folder.groups()
    todo = [i for i in range(len(prompts)) if i not in done]
    console = plain_console()
    console.print(f"estimate folder {folder.path}")
    if scored_by is not reward:
        console.print(f"pass rates are of {scored_by.name}, the part of the reward that verifies the answer")
    sample_all(
        work, folder, todo, prompts=len(prompts), title="estimating", console=console, keep_texts=keep_texts
    )
    sure = None
    if confidence:
        from curro.rollout.engines.models import local_model

        loaded = local_model(str(model), threads=asked.threads)
        sure = Confidence.measure(*loaded, prompts, batch=batch)
    columns = {} if sure is None else {"confidence": sure.s_N, "confidence_score": sure.score_N}
    table = folder.write_table(columns)
    means, variances = (table[name].to_numpy() for name in ("mean", "variance"))
    console.print(render(means, variances, k))
    if sure is not None:
        console.print(sure.describe(means))
    lost = len(prompts) * k - sum(table["rollouts"].to_pylist())
    if lost:
        console.print(f"{lost} rollouts failed and are not counted")
    cut = sum(table["truncated"].to_pylist()) / max(1, sum(table["rollouts"].to_pylist()))
    console.print(f"{cut:.1%} of the completions were cut at {sampling.max_new_tokens} tokens")
    guesser = Guesser.of([row["answer"] for row in prompts], k)
    if guesser is not None and are_pass_rates(means, variances):
        solved = float(np.mean([count > 0 for count in table["correct"].to_pylist()]))
        for sentence in guesser.describe(means, solved):
            console.print(sentence)
    console.print(describe_visits(asked.rollouts, complete.rollouts_per_prompt or 1, len(prompts)))
    console.print(f"table: {folder.path / 'pass_rates.parquet'}")
    if room:
        from curro.storage.files import replacing
        from curro.training.room import measure_room

        with progress_bar(console) as bar:
            task = bar.add_task("training on answers", total=None, latest="")
            measured = measure_room(
                training,
                prompts,
                scored_by,
                sampling,
                rates_P=means,
                answers=room_answers,
                on_step=lambda step, steps, loss: bar.update(
                    task, completed=step, total=steps, latest=f"loss {loss:.3f}"
                ),
            )
        for sentence in measured.describe():
            console.print(sentence)
        with replacing(folder.path / "room.json") as part:
            part.write_text(json.dumps(measured.as_dict(), indent=2) + "\n", encoding="utf-8")
    if push is not None:
        console.print(f"pushed to {push_estimate(folder, push)}")

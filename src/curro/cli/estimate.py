"""`curro estimate`: how often a model solves each prompt of a data set."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from curro.cli import train as options
from curro.cli.progress import progress_bar
from curro.data.labs import lab_family
from curro.errors import ConfigError

if TYPE_CHECKING:
    from curro.rollout.engine import Engine

Source = Annotated[str, typer.Argument(help="lab:NAME, a JSONL or Parquet file, a folder, or a hub id.")]


def estimate(
    data: Source,
    model: options.Model = None,
    server: Annotated[str | None, typer.Option(help="Ask an OpenAI-compatible server: http://...")] = None,
    server_model: Annotated[str | None, typer.Option(help="The model's name there.")] = None,
    k: Annotated[int, typer.Option("--rollouts-per-prompt", "-k", help="Rollouts a prompt.")] = 16,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The estimate's folder. [default: estimates/NAME]")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many prompts only.")] = None,
    reward: options.RewardSpec = "auto",
    max_completion_length: options.Length = None,
    temperature: Annotated[float, typer.Option(help="Of sampling.")] = 1.0,
    batch: Annotated[int, typer.Option(help="Completions through a local model at once.")] = 64,
    connections: Annotated[int, typer.Option(help="Requests to a server at once.")] = 64,
    timeout: Annotated[float, typer.Option(help="Seconds a request to a server may take.")] = 600.0,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    key_column: options.KeyColumn = None,
    threads: Annotated[int, typer.Option(help="CPU threads of a local model.")] = 1,
    seed: Annotated[int, typer.Option(help="Of a local model's sampling.")] = 0,
) -> None:
    """Measure how often a model solves each prompt. After Ctrl-C, the same command goes on."""
    options.quiet()
    from curro.data import load_prompts
    from curro.estimation.folder import EstimateFolder
    from curro.estimation.run import estimate as run
    from curro.estimation.summary import render
    from curro.reward import resolve_reward

    if model is not None and server is not None:
        raise ConfigError("name a --model or a --server, not both")
    if server is not None and server_model is None:
        raise ConfigError(f"name the model to ask for at {server}: --server-model")
    counts = {
        "-k": k, "--batch": batch, "--connections": connections, "--threads": threads,
        "--max-completion-length": max_completion_length,
    }  # fmt: skip
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ConfigError(f"{name} is a number from 1, not {count}")
    named = {"prompt_column": prompt_column, "answer_column": answer_column, "key_column": key_column}
    columns: dict[str, Any] = {name: column for name, column in named.items() if column is not None}
    prompts = load_prompts(data, limit=limit, **columns)
    scored_by = resolve_reward(reward, prompts)
    family = lab_family(data)
    if model is None and server is None and family is None:
        raise ConfigError(
            f"name a model for {data}: --model with a folder, a hub id or lab:NAME, or a --server"
        )
    model = model or (f"lab:{family}" if server is None else None)
    length = max_completion_length or _length(family)
    settings = {
        "data": data, "limit": limit, "columns": columns, "fingerprint": prompts.fingerprint,
        "prompts": len(prompts), "model": model, "server_model": server_model if server else None, "k": k,
        "reward": scored_by.name, "max_completion_length": length, "temperature": temperature,
        "seed": None if server else seed,
    }  # fmt: skip
    name = f"{options.slug(data)}-{options.slug(model or str(server_model))}"
    engine: Engine = (
        _local(model, length, temperature, batch, seed, threads)
        if model
        else _remote(str(server), server_model, length, temperature, connections, timeout)
    )
    folder = EstimateFolder.begin(out or Path("estimates") / name, settings)
    done = folder.groups()
    console = Console(markup=False, highlight=False)
    console.print(f"estimate folder {folder.path}")
    in_flight = connections if server else -(-2 * batch // k)
    todo = [i for i in range(len(prompts)) if i not in done]
    with progress_bar(console) as bar:
        task = bar.add_task("estimating", total=len(prompts), completed=len(done), latest="")
        reported = Counter(prompts=len(done))

        def on_group(row: dict[str, Any]) -> None:
            folder.append(row)
            reported.update(prompts=1, never=row["variance"] == 0 == row["mean"], new=1)
            never = reported["never"] / reported["new"]
            bar.update(task, advance=1, latest=f"without any reward {never:.2f}")

        async def whole() -> int:
            try:
                return await run(
                    engine, prompts, scored_by, k=k, todo=todo, in_flight=in_flight, on_group=on_group
                )
            finally:
                await engine.close()

        try:
            left_out = asyncio.run(whole()) if todo else 0
        except KeyboardInterrupt:
            left_out = -1
    if left_out < 0:
        console.print(f"saved {reported['prompts']} of {len(prompts)} prompts; the same command goes on")
        raise typer.Exit(130)
    if left_out:
        raise ConfigError(
            f"{left_out} of {len(prompts)} prompts got no rollout; the same command asks for theirs again"
        )
    table = folder.write_table()
    console.print(render(table["mean"].to_numpy(), k))
    lost = len(prompts) * k - sum(table["rollouts"].to_pylist())
    if lost:
        console.print(f"{lost} rollouts failed and are not counted")
    cut = sum(table["truncated"].to_pylist()) / max(1, sum(table["rollouts"].to_pylist()))
    console.print(f"{cut:.1%} of the completions were cut at {length} tokens")
    console.print(f"table: {folder.path / 'pass_rates.parquet'}")


def _length(family: str | None) -> int:
    if family is None:
        return 256
    from curro.lab import family as named

    return named(family).recipe.max_completion_length


def _local(name: str, length: int, temperature: float, batch: int, seed: int, threads: int) -> Engine:
    import torch

    from curro.hosts.models import load_model
    from curro.rollout.local import LocalEngine

    torch.set_num_threads(threads)
    model, tokenizer = load_model(name, dtype="auto")
    if torch.cuda.is_available():
        model.to("cuda")
    return LocalEngine(
        model, tokenizer, max_new_tokens=length, temperature=temperature, batch=batch, seed=seed
    )


def _remote(
    url: str, model: str | None, length: int, temperature: float, connections: int, timeout: float
) -> Engine:
    try:
        from curro.rollout.openai_server import OpenAIEngine
    except ImportError as error:
        raise ConfigError(str(error)) from None
    return OpenAIEngine(
        url,
        model,
        max_new_tokens=length,
        temperature=temperature,
        connections=connections,
        timeout=timeout,
        api_key=os.environ.get("CURRO_SERVER_KEY"),
    )

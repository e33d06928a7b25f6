"""`curro train`: one run."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from curro import registry
from curro.cli.progress import accuracy, describe, progress_bar
from curro.errors import ConfigError
from curro.messages import printable
from curro.runs import RunFolder

if TYPE_CHECKING:
    from curro.hosts.trl.run import Prepared

Data = Annotated[str, typer.Option(help="lab:NAME, a JSONL or Parquet file, a folder, or a hub id.")]
Limit = Annotated[int | None, typer.Option(help="Train on the first so many prompts only.")]
Model = Annotated[
    str | None, typer.Option(help="lab:NAME, a folder or a hub id. [default: the data's, in the lab]")
]
Rollouts = Annotated[int, typer.Option(help="The budget.")]
RewardSpec = Annotated[str, typer.Option(help="math, exact, reasoning-gym, lab, module:function, or auto.")]
EnvironmentSpec = Annotated[
    str | None, typer.Option(help="module:function that makes one, for tasks of several turns.")
]
EvalData = Annotated[str | None, typer.Option(help="Held-out prompts. [default: the lab's test split]")]
Prompts = Annotated[int | None, typer.Option(help="Prompts a step.")]
Group = Annotated[int | None, typer.Option(help="Rollouts a prompt.")]
Rate = Annotated[float | None, typer.Option(help="Learning rate.")]
Length = Annotated[int | None, typer.Option(help="Tokens a completion, at most.")]
EvalEvery = Annotated[int, typer.Option(help="Steps between evaluations; with admission, by rollouts.")]
EvalPrompts = Annotated[int | None, typer.Option(help="Held-out prompts to use.")]
EvalSamples = Annotated[int, typer.Option(help="Completions of each.")]
RefillLimit = Annotated[float, typer.Option(help="With admission: generate at most so many batches for one.")]
WhenShort = Annotated[str, typer.Option(help="Then: top-up with rejected groups, or error.")]
RewardRange = Annotated[str, typer.Option(help="Rewards of complete failure and success, LOW,HIGH.")]
PromptColumn = Annotated[str | None, typer.Option(help="Name of the prompt's column.")]
AnswerColumn = Annotated[str | None, typer.Option(help="Name of the answer's column.")]
KeyColumn = Annotated[str | None, typer.Option(help="Name of a column of unique keys.")]


def train(
    context: typer.Context,
    data: Data = "lab:spell_backward",
    limit: Limit = None,
    model: Model = None,
    curriculum: Annotated[
        str, typer.Option(help="A selection method, name:option=value,..., or module:Class of your own.")
    ] = "frontier",
    advantage: Annotated[str | None, typer.Option(help="An advantage estimator. [default: TRL's]")] = None,
    admission: Annotated[
        str | None, typer.Option(help="Which groups are trained on: band:0.3,0.7, signal, ... [default: all]")
    ] = None,
    refill_limit: RefillLimit = 10.0,
    when_short: WhenShort = "top-up",
    reward: RewardSpec = "auto",
    reward_range: RewardRange = "0,1",
    environment: EnvironmentSpec = None,
    rollouts: Rollouts = 25_600,
    out: Annotated[Path | None, typer.Option(help="The run's folder. [default: runs/NAME]")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    eval_data: EvalData = None,
    prompts_per_step: Prompts = None,
    rollouts_per_prompt: Group = None,
    device_batch: Annotated[int | None, typer.Option(help="Completions through the model at once.")] = None,
    learning_rate: Rate = None,
    loss_type: Annotated[str, typer.Option(help="TRL's: dr_grpo, dapo, grpo, bnpo, ...")] = "dr_grpo",
    temperature: Annotated[float, typer.Option(help="Of sampling.")] = 1.0,
    max_completion_length: Length = None,
    eval_every: EvalEvery = 25,
    eval_prompts: EvalPrompts = None,
    eval_samples: EvalSamples = 4,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
    prompt_column: PromptColumn = None,
    answer_column: AnswerColumn = None,
    key_column: KeyColumn = None,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """Train a policy on the prompts that a curriculum chooses. Ctrl-C saves; --resume goes on."""
    quiet()
    from curro.hosts.trl.run import prepare
    from curro.hosts.trl.run import train as run
    from curro.hosts.trl.settings import TrainSettings

    if resume is not None:
        _refuse_others(context)
        folder = RunFolder.open(resume)
        prepared = prepare(TrainSettings.from_dict(folder.settings))
    else:
        columns = {"prompt_column": prompt_column, "answer_column": answer_column, "key_column": key_column}
        parts = [
            f"{kind}={spec}" for kind, spec in (("advantage", advantage), ("admission", admission)) if spec
        ]
        config = registry.parse_curriculum(" ".join([curriculum, *parts]))
        settings = TrainSettings(
            data=data,
            limit=limit,
            model=model,
            curriculum=config,
            refill_limit=refill_limit,
            when_short=when_short,
            loss_type=loss_type,
            reward=reward,
            environment=environment,
            reward_range=_bounds(reward_range),
            eval_data=eval_data,
            rollouts=rollouts,
            prompts_per_step=prompts_per_step,
            rollouts_per_prompt=rollouts_per_prompt,
            device_batch=device_batch,
            learning_rate=learning_rate,
            temperature=temperature,
            max_completion_length=max_completion_length,
            eval_every=eval_every,
            eval_prompts=eval_prompts,
            eval_samples=eval_samples,
            save_every=save_every,
            threads=threads,
            seed=seed,
            columns={name: column for name, column in columns.items() if column is not None},
        )
        prepared = prepare(settings)
        source = data if data.startswith("lab:") else Path(data).name
        name = f"{slug(source)}-{slug(curriculum)}-seed{seed}"
        folder = RunFolder.create(out or Path("runs") / name, _config(prepared))
    console = Console(markup=False, highlight=False)
    console.print(f"run folder {folder.path}")
    with progress_bar(console) as bar:
        reached = (folder.latest() or {"rollouts": 0})["rollouts"]
        task = bar.add_task("training", total=prepared.settings.rollouts, completed=reached, latest="")

        def on_step(line: dict[str, Any]) -> None:
            bar.update(task, completed=line["rollouts"], latest=describe(line))
            scores = accuracy(line)
            if scores is not None:
                console.print(scores)

        def say(sentence: str) -> None:
            console.print(printable(sentence))

        complete = run(prepared, folder, resume=resume is not None, on_step=on_step, say=say)
    if complete:
        console.print(f"done: model, table and report are in {folder.path}")
    else:
        console.print(f"saved; go on with: curro train --resume {folder.path}")
        raise typer.Exit(130)


def _refuse_others(context: typer.Context) -> None:
    """Raises ConfigError where options stand beside --resume, which takes a run as it was started."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name != "resume" and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise ConfigError(
            "--resume goes on with the settings that the run was started with: leave out "
            f"{', '.join(given)}, or start another run with --out"
        )


def _bounds(text: str) -> tuple[float, float]:
    """LOW,HIGH as numbers; raises ConfigError for anything else."""
    try:
        low, high = (float(end) for end in text.split(","))
    except ValueError:
        raise ConfigError(f"--reward-range is two numbers, LOW,HIGH, not {text!r}") from None
    return low, high


def _config(prepared: Prepared) -> dict[str, Any]:
    packages = ("curro", "torch", "transformers", "trl", "numpy")
    return {
        "command": sys.argv[1:],
        "settings": prepared.settings.as_dict(),
        "steps": prepared.settings.steps,
        "curriculum": prepared.curriculum.config,
        "versions": {name: version(name) for name in packages},
    }


def slug(text: str) -> str:
    slug = "".join(letter if letter.isalnum() else "-" for letter in text).strip("-")
    if not slug:
        raise ConfigError(f"{text!r} gives no name for a run folder: choose one with --out")
    return slug


def quiet() -> None:
    """Libraries keep their remarks to themselves: the terminal shows what the run does."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    logging.getLogger("trl").setLevel(logging.ERROR)
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

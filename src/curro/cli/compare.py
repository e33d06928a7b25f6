"""`curro compare`: several curricula, the same budget of rollouts, the same seeds, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from curro import registry
from curro.cli import train as options
from curro.cli.progress import progress_bar
from curro.cli.side_by_side import RunFailed, TrainingRun, jobs_or_cores, run_all
from curro.errors import ConfigError
from curro.runs import RunFolder


def compare(
    curricula: Annotated[
        list[str] | None,
        typer.Argument(
            help="Curricula, 'SELECTION advantage=... admission=...'; the first is the one to beat. "
            "[default: uniform prioritized-replay]"
        ),
    ] = None,
    data: options.Data = "lab:spell_backward",
    limit: options.Limit = None,
    model: options.Model = None,
    refill_limit: options.RefillLimit = 10.0,
    when_short: options.WhenShort = "top-up",
    reward: options.RewardSpec = "auto",
    rollouts: options.Rollouts = 25_600,
    seeds: Annotated[int, typer.Option(help="Runs of each curriculum, with seeds 0, 1, ...")] = 1,
    jobs: Annotated[int | None, typer.Option(help="Runs side by side. [default: one a core]")] = None,
    out: Annotated[Path, typer.Option(help="A folder for all runs and the comparison.")] = Path(
        "runs/compare"
    ),
    eval_data: options.EvalData = None,
    prompts_per_step: options.Prompts = None,
    rollouts_per_prompt: options.Group = None,
    learning_rate: options.Rate = None,
    max_completion_length: options.Length = None,
    eval_every: options.EvalEvery = 25,
    eval_prompts: options.EvalPrompts = None,
    eval_samples: options.EvalSamples = 4,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    key_column: options.KeyColumn = None,
) -> None:
    """Train with several curricula on one task and say how many rollouts each needs.

    Typed again after Ctrl-C, the same command goes on where it stopped.
    """
    from curro.report import comparison_table, render_comparison, write_comparison

    names = curricula or ["uniform", "prioritized-replay"]
    if len(set(names)) < len(names):
        raise ConfigError("a curriculum stands twice in the comparison: name each once")
    side_by_side = jobs_or_cores(jobs)
    for name in names:
        for kind, spec in registry.parse_curriculum(name).items():
            registry.build(kind, spec)
    shared = {
        "data": data,
        "limit": limit, "model": model, "reward": reward, "rollouts": rollouts, "eval-data": eval_data,
        "refill-limit": refill_limit, "when-short": when_short,
        "prompts-per-step": prompts_per_step, "rollouts-per-prompt": rollouts_per_prompt,
        "learning-rate": learning_rate, "max-completion-length": max_completion_length,
        "eval-every": eval_every, "eval-prompts": eval_prompts, "eval-samples": eval_samples,
        "prompt-column": prompt_column, "answer-column": answer_column, "key-column": key_column,
    }  # fmt: skip
    flags = [f"--{name}={value}" for name, value in shared.items() if value is not None]
    runs = {
        (name, seed): TrainingRun(
            f"{name} seed {seed}",
            out / f"{options.slug(name)}-seed{seed}",
            [f"--curriculum={name}", f"--seed={seed}", *flags],
        )
        for seed in range(seeds)
        for name in names
    }
    console = Console()
    with progress_bar(console) as bar:
        run_all(list(runs.values()), side_by_side, bar, _must_be_complete)
    folders = {name: [RunFolder.open(runs[name, seed].path) for seed in range(seeds)] for name in names}
    console.print(render_comparison(comparison_table(folders)))
    console.print(f"report: {write_comparison(folders, out / 'report.html')}", highlight=False)


def _must_be_complete(run: TrainingRun) -> None:
    if not run.complete:
        raise RunFailed(run.last_words())

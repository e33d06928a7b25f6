"""`curro compare`: several curricula, the same budget of rollouts, the same seeds, one table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TaskID

from curro import registry
from curro.cli import train as options
from curro.cli.progress import describe, progress_bar
from curro.errors import ConfigError, CurroError
from curro.runs import RunFolder


class RunFailed(CurroError):
    """One of the compared runs ended with an error."""


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
    waiting = [_Run(name, seed, out, flags) for seed in range(seeds) for name in names]
    runs = list(waiting)
    console = Console()
    with progress_bar(console) as bar:
        _run_all(waiting, jobs or os.cpu_count() or 1, bar)
    folders = {name: [RunFolder.open(run.path) for run in runs if run.name == name] for name in names}
    console.print(render_comparison(comparison_table(folders)))
    console.print(f"report: {write_comparison(folders, out / 'report.html')}", highlight=False)


class _Run:
    """One `curro train` in a process of its own, with one thread."""

    def __init__(self, name: str, seed: int, out: Path, flags: list[str]) -> None:
        self.name, self.seed, self.flags = name, seed, flags
        self.path = out / f"{options._slug(name)}-seed{seed}"
        self.log = out / f"{options._slug(name)}-seed{seed}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.task = TaskID(0)

    @property
    def complete(self) -> bool:
        return (self.path / "model").is_dir()

    def start(self) -> None:
        """Start the run, or go on with it if its folder is there."""
        fresh = [f"--curriculum={self.name}", f"--seed={self.seed}", f"--out={self.path}", *self.flags]
        begun = (self.path / "config.json").is_file()
        command = [sys.executable, "-m", "curro", "train"]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command + ([f"--resume={self.path}"] if begun else fresh),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def show(self, bar: Progress) -> None:
        """Bring the bar up to date with the run's metrics."""
        if (self.path / "config.json").is_file():
            folder = RunFolder.open(self.path)
            lines = folder.metrics()
            if lines:
                total, done = folder.config["settings"]["rollouts"], lines[-1]["rollouts"]
                bar.update(self.task, completed=done, total=total, latest=describe(lines[-1]))


def _run_all(waiting: list[_Run], jobs: int, bar: Progress) -> None:
    running: list[_Run] = []
    for run in waiting:
        run.task = bar.add_task(f"{run.name} seed {run.seed}", total=None, latest="")
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop(0)
                if not run.complete:
                    run.start()
                    running.append(run)
                run.show(bar)
            time.sleep(0.5)
            for run in list(running):
                run.show(bar)
                assert run.process is not None
                status = run.process.poll()
                if status is not None:
                    running.remove(run)
                    if status or not run.complete:
                        raise RunFailed(
                            f"{run.name}, seed {run.seed}: {_last_words(run.log)} (see {run.log})"
                        )
    finally:
        for run in running:
            assert run.process is not None
            run.process.send_signal(signal.SIGINT)
        for run in running:
            assert run.process is not None
            run.process.wait()


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it ended without a word"

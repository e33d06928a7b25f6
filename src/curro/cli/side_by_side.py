"""Training runs side by side: one process and one thread a run, one bar a run, an orderly end."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress, TaskID

from curro.cli.terminal import describe
from curro.core.errors import ConfigError, CurroError, RunError
from curro.runs.folder import RunFolder

POLL = 0.5
"""Seconds between looks at the runs."""


class RunFailed(CurroError):
    """A run ended before its first step, because its settings are wrong."""


@dataclass(eq=False)
class TrainingRun:
    """One `curro train --out=path` with these flags in a process of its own; an unfinished run goes on."""

    title: str
    path: Path
    flags: Sequence[str]
    process: mp.process.BaseProcess | None = field(default=None, init=False)
    task: TaskID | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """The file with everything that the run printed."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def complete(self) -> bool:
        return (self.path / "model").is_dir()

    @property
    def begun(self) -> bool:
        return (self.path / "config.json").is_file()

    def check(self) -> None:
        """Raises RunError where the folder holds a run of other flags; they are named."""
        if not self.begun:
            return
        command = RunFolder.open(self.path).config.get("command", [])
        if not (isinstance(command, list) and all(isinstance(item, str) for item in command)):
            raise RunError(f"{self.path}/config.json is damaged: its command is no list of texts")
        there, asked = _by_name(command), _by_name(self.flags)
        other = [name for name in there | asked if there.get(name) != asked.get(name)]
        if other:
            differ = "; ".join(
                f"{name} was {there.get(name, 'not given')}, is {asked.get(name, 'not given')}"
                for name in other
            )
            raise RunError(f"{self.path} holds another run ({differ}): choose another folder with --out")

    def start(self) -> mp.process.BaseProcess:
        arguments = (
            [f"--resume={self.path}", "--trust"] if self.begun else [f"--out={self.path}", *self.flags]
        )
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.process = _server().Process(target=_train, args=(arguments, str(self.log)))
        self.process.start()
        return self.process

    def show(self, bar: Progress) -> None:
        """Bring the bar up to date with the run's metrics."""
        if self.task is None:
            self.task = bar.add_task(self.title, total=None, latest="")
        if self.begun:
            folder = RunFolder.open(self.path)
            line = folder.latest()
            if line:
                total = folder.settings["rollouts"]
                bar.update(self.task, completed=line["rollouts"], total=total, latest=describe(line))

    def last_words(self) -> str:
        """Why it failed, and where to read more."""
        code = None if self.process is None else self.process.exitcode
        if code is not None and code < 0:
            return f"{self.title}: killed by {signal.Signals(-code).name}; the same command goes on with it"
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = [line for line in said.splitlines() if line.strip()]
        return f"{self.title}: {lines[-1] if lines else 'it ended without a word'} (see {self.log})"


def jobs_or_cores(jobs: int | None) -> int:
    """How many runs go side by side. The default is one for each CPU core, and one if there is a GPU."""
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs must be 1 or more, not {jobs}")
    if jobs is not None:
        return jobs
    import torch

    return 1 if torch.cuda.is_available() else os.cpu_count() or 1


def run_all(
    runs: Sequence[TrainingRun], jobs: int, bar: Progress, ended: Callable[[TrainingRun], None]
) -> None:
    """Train all runs that are not complete, `jobs` at a time, in order; `ended` is called as each ends.

    When this is interrupted, or `ended` raises, the runs that are under way save and stop first.

    Raises:
        RunError: a folder holds a run of other flags; none is started then.
    """
    for run in runs:
        run.check()
    waiting, running = list(runs), dict[TrainingRun, mp.process.BaseProcess]()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                run = waiting.pop(0)
                if run.complete:
                    ended(run)
                else:
                    running[run] = run.start()
                    run.show(bar)
            time.sleep(POLL)
            for run, process in list(running.items()):
                run.show(bar)
                if not process.is_alive():
                    del running[run]
                    ended(run)
    finally:
        for process in running.values():
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGINT)
        for process in running.values():
            process.join()
        signal.signal(signal.SIGTERM, before)


def _by_name(flags: Sequence[str]) -> dict[str, str]:
    """The values of `--name=value`, without where the run is; "given" for a switch."""
    parts = (flag.partition("=") for flag in flags if flag.startswith("--"))
    return {name: value if equals else "given" for name, equals, value in parts if name != "--out"}


def _server() -> mp.context.ForkServerContext:
    """Processes that start with everything imported."""
    os.environ["OMP_NUM_THREADS"] = "1"
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["curro.cli.preload"])
    return context


def _train(arguments: list[str], log: str) -> None:
    os.setsid()  # Ctrl-C reaches this process from its parent alone
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from curro.cli import main

    sys.argv = ["curro", "train", *arguments]
    main()

"""Runs one seed, and shrinks a seed that fails."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks.common import run
from tests.simulation.world import World

HOSTS = ("Asynchronous", "Rounds", "Served", "Verl")
"""Each in the module of its name, which is imported when a seed first asks for it."""

_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where the folder of a seed is: a seed makes, renames and removes some fifty files."""


@dataclass(frozen=True)
class Failure:
    """A seed that broke a promise.

    Attributes:
        steps, only: what the run was limited to.
        faults: what went wrong in it.
        problem: the error in one line.
    """

    seed: int
    host: str
    steps: int
    faults: tuple[str, ...]
    problem: str
    traceback: str

    @property
    def command(self) -> str:
        """What repeats it."""
        faults = ",".join(self.faults)
        return f"python -m tests.simulation --seed {self.seed} --steps {self.steps} --only '{faults}'"

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.host}, {len(self.faults)} faults): {self.problem}"


def simulate(
    seed: int, *, steps: int | None = None, host: str | None = None, only: Collection[str] | None = None
) -> Failure | None:
    """What one seed breaks, None where everything holds."""
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder, _quiet():
        world = World(seed, Path(folder), steps=steps, only=only)
        host = world.choice("host", HOSTS) if host is None else host
        try:
            kind = _host(host)
            with world.disk.mounted(), _quick():
                run(kind(world).live())
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            faults = tuple(world.faults)
            return Failure(seed, host, world.steps, faults, problem, traceback.format_exc())
    return None


def _host(name: str) -> Any:
    return getattr(import_module(f"tests.simulation.{name.lower()}"), name)


@contextmanager
def _quick() -> Iterator[None]:
    """Read no signature twice, and no clock of this machine; start no threads."""
    with ExitStack() as patches:
        for target, replacement in (
            ("curro.core.registry.inspect", SimpleNamespace(signature=_SIGNATURE)),
            ("curro.runs.writer._READ", {"seconds": float, "cpu_seconds": float}),
        ):
            patches.enter_context(patch(target, replacement))
        yield


_SIGNATURE = cache(inspect.signature)


def simulate_all(seeds: range) -> Iterator[Failure]:
    """The failures among seeds, in their order, from as many processes as this one may use processors."""
    parts = [seeds[first : first + PART] for first in range(0, len(seeds), PART)]
    with ProcessPoolExecutor(min(len(parts), len(os.sched_getaffinity(0))), initializer=_begin) as processes:
        for failures in processes.map(_failures, parts):
            yield from failures


PART = 50
"""Seeds that a process is given at once."""


def _begin() -> None:
    """Import what seeds need, and let no collection of garbage look through it again."""
    for name in HOSTS:
        _host(name)
    gc.collect()
    gc.freeze()


def _failures(seeds: range) -> list[Failure]:
    return [failure for failure in map(simulate, seeds) if failure is not None]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings and curro's log, in which every injected fault would be said."""
    log = logging.getLogger("curro")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def shrunk(seed: int) -> Failure:
    """The failure of a seed with as few steps and faults as still fail: each is left out once, in turn."""
    failure = simulate(seed)
    assert failure is not None, f"seed {seed} holds"
    for steps in range(1, failure.steps):
        shorter = simulate(seed, steps=steps)
        if shorter is not None:
            failure = shorter
            break
    part = max(1, len(failure.faults) // 2)
    while part:
        start = 0
        while start < len(failure.faults):
            fewer = failure.faults[:start] + failure.faults[start + part :]
            smaller = simulate(seed, steps=failure.steps, only=fewer)
            if smaller is not None and len(smaller.faults) < len(failure.faults):
                failure = smaller
            else:
                start += part
        part //= 2
    return failure

"""Many cases of what has to hold, each kind in a process of its own, so that a crash or a hang is seen."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

Seed = Annotated[int, typer.Option(help="The seed of what is tried.")]
Cases = Callable[[str, int, int, Any], Mapping[str, int]]
"""(kind, cases, seed, a value that counts those that are done) -> how many ended how."""


def _work(part: Cases, kind: str, cases: int, seed: int, done: Any, answers: Any) -> None:
    answers.put(part(kind, cases, seed, done))


def watched(
    part: Cases, kind: str, cases: int, seed: int, patience: float = 600.0
) -> Mapping[str, int] | str:
    """The part in a process of its own: its counts, or what was wrong where it crashed or hung."""
    context = multiprocessing.get_context("spawn")
    done, answers = context.Value("q", 0), context.Queue()
    process = context.Process(target=_work, args=(part, kind, cases, seed, done, answers))
    process.start()
    before, since = -1, time.monotonic()
    while process.is_alive() and answers.empty():
        process.join(0.5)
        if done.value != before:
            before, since = done.value, time.monotonic()
        elif time.monotonic() - since > patience:
            process.kill()
            return f"hung at case {before}"
    if answers.empty():
        return f"ended with exit code {process.exitcode} at case {done.value}"
    found = answers.get()
    process.join()
    return found


def all_of(part: Cases, kinds: Mapping[str, Any], cases: int, seed: int) -> None:
    """Print what each kind came to; exits with 1 where one went wrong."""
    total, wrong, begun = 0, 0, time.monotonic()
    for kind in kinds:
        found = watched(part, kind, cases, seed)
        if isinstance(found, str):
            wrong += 1
            print(f"{kind:32}{found}", flush=True)
        else:
            total += sum(found.values())
            print(f"{kind:32}" + "  ".join(f"{name} {n}" for name, n in found.items()), flush=True)
    print(f"{total} cases, {wrong} of {len(kinds)} kinds went wrong, {time.monotonic() - begun:.0f} s")
    raise SystemExit(1 if wrong else 0)

"""What is wrong ends in one sentence, and nothing is lost: faults put in by the thousand.

    python benchmarks/faults.py states                    # 10^5 forged states of all methods: 30 minutes
    python benchmarks/faults.py schedules                 # 10^5 fills with faults: 15 minutes
    python benchmarks/faults.py texts                     # 10^4 hostile texts a place: 25 minutes

`forged_states.py`, `fault_schedules.py` and `hostile_texts.py` say what is tried and what has to be true; the
tests try a few of each. Every part runs in processes of its own, so that a crash or a hang is
seen and does not end the others.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import fault_schedules
import forged_states
import hostile_texts
import typer

app = typer.Typer(add_completion=False)
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


Seed = Annotated[int, typer.Option(help="The seed of what is tried.")]


@app.command()
def states(
    cases: Annotated[int, typer.Option(help="Forged states of each kind of curriculum.")] = 7_000,
    seed: Seed = 0,
) -> None:
    """Load states that were damaged or forged."""
    all_of(forged_states.forged_states, forged_states.CURRICULA, cases, seed)


@app.command()
def schedules(
    cases: Annotated[int, typer.Option(help="Fills of each kind of selection, without a driver.")] = 20_000,
    drivers: Annotated[int, typer.Option(help="Runs of several fills through each driver.")] = 2_000,
    seed: Seed = 0,
) -> None:
    """Fill batches while everything goes wrong that can."""
    kinds = fault_schedules.SELECTIONS
    ended = 0
    for part, names, number in (
        (fault_schedules.schedules, kinds, cases),
        (fault_schedules.driven, fault_schedules.DRIVERS, drivers),
    ):
        try:
            all_of(part, names, number, seed)
        except SystemExit as end:
            ended |= bool(end.code)
    raise SystemExit(ended)


@app.command()
def texts(
    cases: Annotated[int, typer.Option(help="Texts through each place that shows or stores them.")] = 10_000,
    seed: Seed = 0,
) -> None:
    """Send hostile texts through table, log, page and terminal."""
    all_of(hostile_texts.hostile_texts, hostile_texts.PLACES, cases, seed)


if __name__ == "__main__":
    app()

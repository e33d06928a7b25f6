"""Fills in which everything goes wrong that can: groups are rejected, fail, grow old, are cancelled or
filtered, end twice or are unknown, prompts run out, and the run is killed and restored in mid-batch.

After every call the fill's counts agree with each other and with the curriculum's ledger, no prompt comes
twice into a batch, and every admitted group was trained on once, waits, or was taken away by name.
`schedules` calls the state machine itself; `driven` goes through its three drivers, with the engine, the
queue and the processes that the tests have.

    python -m tests.rollout.fault_schedules               # 10^5 fills with faults: 15 minutes
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

import numpy as np
import typer
from benchmarks.common import Seed, all_of
from tests.rollout.fill_promises import GATES, SELECTIONS, FilledBatches

from curro.rollout.fill_settings import WHEN_SHORT, FillSettings

CALLS = 24
SHARES = {
    "draw": 0.3, "observe": 0.36, "lose": 0.1, "withdraw": 0.06, "end again": 0.05, "finish": 0.11,
    "restore": 0.02,
}  # fmt: skip
"""How probable each call is."""


def random_call(batches: FilledBatches, name: str, rng: np.random.Generator) -> None:
    """Make a call with random arguments; none where there is no group for it."""

    def any_of(tickets: Collection[int]) -> int:
        return sorted(tickets)[int(rng.integers(len(tickets)))]

    fill = batches.fill
    if name == "draw":
        batches.draw(int(rng.integers(1, 5)))
    elif name == "observe" and fill.in_flight:
        batches.observe(any_of(fill.in_flight), int(rng.integers(5)))
    elif name == "lose" and fill.in_flight:
        batches.lose(any_of(fill.in_flight), str(rng.choice(["failed", "stale", "cancelled"])))
    elif name == "withdraw" and fill.admitted:
        batches.withdraw(any_of(fill.admitted), str(rng.choice(["filtered", "expired"])))
    elif name == "end again":
        ended = any_of(batches.trained) if batches.trained else 10**6
        batches.end_again(ended, int(rng.integers(4)))
    elif name == "finish":
        batches.finish(int(rng.integers(1, 6)), cancel=bool(rng.random() < 0.5))
    elif name == "restore":
        batches.restore(int(rng.integers(1, 6)))


def schedules(selection: str, cases: int, seed: int, done: Any = None) -> dict[str, int]:
    """How many schedules kept every promise.

    Raises:
        AssertionError: one broke it, named with the seed that repeats it.
    """
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        settings = FillSettings(float(rng.choice([1.0, 2.0, 10.0])), str(rng.choice(WHEN_SHORT)))
        batches = FilledBatches(selection, str(rng.choice(GATES)), 3, settings, int(rng.integers(1, 6)))
        names = rng.choice(list(SHARES), size=CALLS, p=list(SHARES.values()))
        for number, name in enumerate(names):
            try:
                random_call(batches, name, rng)
                batches.check()
            except Exception as error:
                raise AssertionError(
                    f"{selection}, seed {seed}, case {case}, call {number} ({name}): {error!r}"
                ) from error
        if done is not None:
            done.value = case + 1
    return {"kept": cases}


def by_event_loop(rng: np.random.Generator) -> None:
    from benchmarks.common import run
    from tests.rollout.test_filler_machine import ALLOCATIONS, GROUP, World

    staleness = int(rng.integers(3))
    world = World(
        int(rng.integers(10**6)),
        str(rng.choice(["uniform", "uniform:replacement=true", "prioritized-replay"])),
        str(rng.choice(["band:0,1", "everything", "band:0.4,0.6"])),
        ALLOCATIONS[rng.integers(len(ALLOCATIONS))],
        max_in_flight=int(rng.integers(1, 10)), max_staleness=staleness, retries=int(rng.integers(3)),
        least_rollouts=int(rng.integers(1, GROUP + 1)), max_failures=int(rng.choice([2, 5, 100])),
        max_seconds=float(rng.choice([4.0, 30.0, np.inf])),
        fill=FillSettings(float(rng.choice([1.0, 2.5, 10.0])), str(rng.choice(WHEN_SHORT))),
    )  # fmt: skip
    same = bool(rng.integers(2))
    plan = [
        (int(rng.integers(1, 7)), float(rng.choice([1, 3, 7, 1e9])), float(rng.choice([0, 2, 50])), same)
        for _ in range(rng.integers(1, 7))
    ]
    run(world.live(plan, staleness > 0))


def by_rounds(rng: np.random.Generator) -> None:
    from tests.hosts.trl.test_rounds import ALLOCATIONS, SELECTIONS, every_batch_is_full_or_an_error

    processes = int(rng.integers(1, 4))
    every_batch_is_full_or_an_error(
        str(rng.choice(SELECTIONS)), str(rng.choice(GATES)), ALLOCATIONS[rng.integers(len(ALLOCATIONS))],
        int(rng.integers(10**6)), float(rng.choice([1.0, 2.0, 10.0])),
        str(rng.choice(["top-up", "error"])), processes,
        rng.integers(1, 4, size=rng.integers(1, 5)).tolist(),
        (rng.random(rng.integers(5)) < 0.5).tolist(),
    )  # fmt: skip


def by_polling(rng: np.random.Generator) -> None:
    from tests.rollout.test_polled_fill import SELECTIONS, the_fill_knows_the_queue

    the_fill_knows_the_queue(
        str(rng.choice(SELECTIONS)), str(rng.choice(GATES)), int(rng.integers(10**6)),
        float(rng.choice([1.0, 3.0, 10.0])), int(rng.integers(1, 5)), int(rng.integers(3)),
        int(rng.integers(1, 6)), int(rng.integers(4)),
    )  # fmt: skip


DRIVERS = {"event loop": by_event_loop, "rounds": by_rounds, "polling": by_polling}


def driven(driver: str, cases: int, seed: int, done: Any = None) -> dict[str, int]:
    """How many runs of several fills through a driver kept every promise; raises as `schedules`."""
    for case in range(cases):
        try:
            DRIVERS[driver](np.random.default_rng([seed, case]))
        except Exception as error:
            raise AssertionError(f"{driver}, seed {seed}, case {case}: {error!r}") from error
        if done is not None:
            done.value = case + 1
    return {"kept": cases}


def main(
    cases: Annotated[int, typer.Option(help="Fills of each kind of selection, without a driver.")] = 20_000,
    drivers: Annotated[int, typer.Option(help="Runs of several fills through each driver.")] = 2_000,
    seed: Seed = 0,
) -> None:
    """Fill batches while everything goes wrong that can."""
    ended = 0
    parts = ((schedules, dict.fromkeys(SELECTIONS), cases), (driven, DRIVERS, drivers))
    for part, names, number in parts:
        try:
            all_of(part, names, number, seed)
        except SystemExit as end:
            ended |= bool(end.code)
    raise SystemExit(ended)


if __name__ == "__main__":
    typer.run(main)

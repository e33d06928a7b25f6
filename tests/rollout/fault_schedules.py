"""Fills in which everything goes wrong that can: groups are rejected, fail, grow old, are cancelled or
filtered, end twice or are unknown, prompts run out, and the run is killed and restored in mid-batch.

After every call the fill's counts agree with each other and with the curriculum's ledger, no prompt comes
twice into a batch, and every admitted group was trained on once, waits, or was taken away by name.
`schedules` calls the state machine itself; `driven` goes through its three drivers, with the engine, the
queue and the processes that the tests have.

    python -m tests.rollout.fault_schedules               # 10^5 fills with faults: 15 minutes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from benchmarks.common import Seed, all_of
from tests.rollout.fill_promises import check, drop_held, end_batch

import curro
from curro.rollout.fill import Fill, InFlight, draw_fresh
from curro.rollout.fill_settings import WHEN_SHORT, FillSettings

SIZE, CALLS = 8, 24
SELECTIONS = dict.fromkeys(
    ("uniform", "uniform:replacement=true", "prioritized-replay", "pspo", "least-visited")
)
GATES = ("everything", "band:0,1", "band:0.4,0.6")


class Schedule:
    """One curriculum and one fill, called at random."""

    def __init__(self, selection: str, rng: np.random.Generator) -> None:
        self.rng, self.selection = rng, selection
        self.gate = str(rng.choice(GATES))
        self.settings = FillSettings(float(rng.choice([1.0, 2.0, 10.0])), str(rng.choice(WHEN_SHORT)))
        self.curriculum = self.fresh()
        self.fill = self.fresh_fill()
        self.before: Counter[str] = Counter()
        self.step = 0
        self.admitted: list[int] = []
        self.trained: list[int] = []
        self.had: list[int] = []
        self.fill.begin(int(rng.integers(1, 6)), 0)

    def fresh(self) -> curro.Curriculum:
        return curro.Curriculum(self.selection, SIZE, admission=self.gate, seed=3)

    def fresh_fill(self) -> Fill[int]:
        return Fill(self.settings, size=SIZE, may_repeat=self.curriculum.selection.repeats)

    def draw(self) -> None:
        if self.fill.reason:
            return
        try:
            draw = draw_fresh(self.curriculum, self.fill, int(self.rng.integers(1, 5)), step=self.step)
        except curro.ExhaustedError:
            assert self.fill.reason == "prompts"
            return
        if not self.fill.may_repeat:
            assert not set(draw.prompts.tolist()) & set(self.had), "a prompt came twice into a batch"
        self.had += draw.prompts.tolist()

    def one(self, of: Any) -> int:
        return sorted(of)[int(self.rng.integers(len(of)))]

    def observe(self) -> None:
        if not self.fill.in_flight:
            return
        ticket, right = self.one(self.fill.in_flight), int(self.rng.integers(5))
        verdict = self.curriculum.observe([ticket], (np.arange(4) < right)[None].astype(float))
        if verdict.admitted[0]:
            self.fill.admit(ticket, ticket)
            self.admitted.append(ticket)
        else:
            variance = float(verdict.informativeness[0])
            self.fill.reject(ticket, ticket, informativeness=variance, reward=right / 4)

    def lose(self) -> None:
        if self.fill.in_flight:
            ticket = self.one(self.fill.in_flight)
            self.curriculum.drop([ticket])
            self.fill.lose(ticket, str(self.rng.choice(["failed", "stale", "cancelled"])))

    def withdraw(self) -> None:
        if self.fill.admitted:
            ticket = self.one(self.fill.admitted)
            self.fill.withdraw(ticket, str(self.rng.choice(["filtered", "expired"])))
            self.admitted.remove(ticket)

    def end_wrongly(self) -> None:
        """A group that ended before, or was never given out, ends: an error, and nothing has changed."""
        ticket = self.one(self.trained) if self.trained else 10**6
        before = self.fill.counts.metrics()
        calls: list[Callable[[], None]] = [
            lambda: self.fill.admit(ticket, ticket),
            lambda: self.fill.reject(ticket, ticket, informativeness=0.1, reward=0.5),
            lambda: self.fill.lose(ticket, "failed"),
            lambda: self.fill.withdraw(ticket, "expired"),
        ]
        try:
            calls[int(self.rng.integers(4))]()
        except KeyError:
            assert self.fill.counts.metrics() == before
            return
        raise AssertionError("a group that is not there came to an end")

    def finish(self) -> None:
        cancel = bool(self.rng.random() < 0.5)
        self.trained += end_batch(self.fill, self.curriculum, self.admitted, cancel=cancel)
        self.begin()

    def begin(self) -> None:
        self.step += 1
        self.fill.begin(int(self.rng.integers(1, 6)), self.step)
        self.had = list(self.fill.prompts_given_out.values())

    def restore(self) -> None:
        """The run is killed, and goes on from the state that the curriculum and the fill had."""
        drop_held(self.fill, self.curriculum)
        curriculum = self.fresh()
        curriculum.load_state_dict(self.curriculum.state_dict())
        fill = self.fresh_fill()
        ledger = curriculum.ledger.state_dict()
        rows = zip(*(ledger[name].tolist() for name in ("tickets", "prompts", "steps")), strict=True)
        given, held = self.fill.prompts_given_out, self.fill.admitted
        fill.restore(
            {ticket: InFlight(prompt, step) for ticket, prompt, step in rows},
            {ticket: (given[ticket], group) for ticket, group in held.items()},
        )
        ours = self.fill.counts
        fill.counts.repeats, fill.counts.draws = ours.repeats, ours.draws
        for name in ("rejected", "failed", "stale", "cancelled"):
            setattr(fill.counts, name, getattr(ours, name))
        fill.counts.given_out, fill.counts.admitted = ours.given_out, ours.admitted
        self.curriculum, self.fill = curriculum, fill
        self.begin()

    def check(self) -> None:
        check(self.fill, self.curriculum)
        assert len(set(self.trained)) == len(self.trained), "a group was trained on twice"
        waiting = set(self.fill.admitted)
        assert set(self.admitted) - set(self.trained) == waiting, "an admitted group was lost"


CALLS_BY_NAME = ("draw", "observe", "lose", "withdraw", "end_wrongly", "finish", "restore")
SHARES = np.array([0.3, 0.36, 0.1, 0.06, 0.05, 0.11, 0.02])


def schedules(selection: str, cases: int, seed: int, done: Any = None) -> dict[str, int]:
    """How many schedules kept every promise.

    Raises:
        AssertionError: one broke it, named with the seed that repeats it.
    """
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        schedule = Schedule(selection, rng)
        names = rng.choice(CALLS_BY_NAME, size=CALLS, p=SHARES)
        for number, name in enumerate(names):
            try:
                getattr(schedule, name)()
                schedule.check()
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
    for part, names, number in ((schedules, SELECTIONS, cases), (driven, DRIVERS, drivers)):
        try:
            all_of(part, names, number, seed)
        except SystemExit as end:
            ended |= bool(end.code)
    raise SystemExit(ended)


if __name__ == "__main__":
    typer.run(main)

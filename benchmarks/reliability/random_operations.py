"""Random calls of the port, right and wrong ones, over all methods: the counts agree after each.

    python -m benchmarks.reliability.random_operations                        # 10^6 calls: 5 minutes
    python -m benchmarks.reliability.random_operations --operations 20000     # 10 seconds

A curriculum is asked for prompts, told rewards in any order, told to drop tickets, given what it has to
refuse (unknown, settled and repeated tickets, rewards that are no numbers, more prompts than are free), and
saved and loaded again. After every call selected = observed + dropped + in flight, the table's `in_flight` is
that of the open tickets, and a refused call has changed none of that. The loaded curriculum draws what the
saved one draws. Gives up: methods that ask a policy (METIS, PCL), whose answers a test scripts.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import numpy as np
import typer

from curro import Curriculum, CurroError

SIZE, GROUP = 60, 4
SELECTIONS = (
    "uniform", "least-visited", "scheduled", "pspo",
    "prioritized-replay", "prioritized-replay:variant=published",
    "prioritized-replay:variant=published,draw=proportional", "posterior", "frontier", "sec:categories=3",
    "adcl:chunks=3",
)  # fmt: skip
KINDS = ("select", "observe", "drop", "wrong", "resume")
PARTS = ("group", "leave-one-out", "smoothed"), ("everything", "signal", "band:0.2,0.8", "variance:0.01")


class Caller:
    """One curriculum, and what has to be true of it."""

    def __init__(self, selection: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        advantage, admission = (str(self.rng.choice(names)) for names in PARTS)
        self.config: dict[str, Any] = {
            "selection": selection, "advantage": advantage, "admission": admission, "seed": seed,
        }  # fmt: skip
        self.curriculum = Curriculum(prompts=SIZE, **self.config)
        self.in_flight: dict[int, int] = {}
        self.settled: list[int] = []
        self.selected = self.observed = self.dropped = self.step = 0

    def call(self) -> str:
        """One random call; says which."""
        kind = str(self.rng.choice(KINDS, p=[0.38, 0.4, 0.1, 0.11, 0.01]))
        if kind in ("observe", "drop") and not self.in_flight:
            kind = "select"
        getattr(self, kind)()
        self.check()
        return kind

    def some(self) -> list[int]:
        tickets = list(self.in_flight)
        return [int(t) for t in self.rng.permutation(tickets)[: self.rng.integers(1, len(tickets) + 1)]]

    def select(self) -> None:
        free = self.curriculum.free
        if not free:
            return
        self.step += int(self.rng.integers(2))
        draw = self.curriculum.select(int(self.rng.integers(1, min(free, 8) + 1)), step=self.step)
        self.in_flight |= dict(zip(draw.tickets.tolist(), draw.prompts.tolist(), strict=True))
        self.selected += len(draw)

    def observe(self) -> None:
        tickets = self.some()
        rewards = self.rng.integers(0, 2, (len(tickets), GROUP)).astype(float)
        scored = self.rng.random(rewards.shape) < 0.9
        self.curriculum.observe(tickets, np.where(scored, rewards, np.nan))
        seen = int(scored.any(axis=1).sum())
        self.observed, self.dropped = self.observed + seen, self.dropped + len(tickets) - seen
        self.close(tickets)

    def drop(self) -> None:
        tickets = self.some()
        self.curriculum.drop(tickets)
        self.dropped += len(tickets)
        self.close(tickets)

    def close(self, tickets: list[int]) -> None:
        for ticket in tickets:
            del self.in_flight[ticket]
        self.settled = (self.settled + tickets)[-20:]

    def wrong(self) -> None:
        """Calls that curro has to refuse with one error."""
        rewards = np.ones((1, GROUP))
        ticket = next(iter(self.in_flight), 10**9)
        calls = [
            lambda: self.curriculum.select(10**6, step=self.step),
            lambda: self.curriculum.select(0, step=self.step),
            lambda: self.curriculum.select(1, step=self.step - 1),
            lambda: self.curriculum.observe([-1], rewards),
            lambda: self.curriculum.observe(self.settled[-1:] or [10**9], rewards),
            lambda: self.curriculum.observe([ticket, ticket], np.ones((2, GROUP))),
            lambda: self.curriculum.observe([ticket], rewards * np.inf),
            lambda: self.curriculum.observe([ticket], rewards[0]),
            lambda: self.curriculum.drop([10**12]),
        ]
        try:
            calls[int(self.rng.integers(len(calls)))]()
        except CurroError:
            return
        raise AssertionError("a wrong call was not refused")

    def resume(self) -> None:
        twin = Curriculum(prompts=SIZE, **self.config)
        twin.load_state_dict(self.curriculum.state_dict())
        if twin.free:
            ours, theirs = self.curriculum.select(1, step=self.step), twin.select(1, step=self.step)
            assert ours.prompts.tolist() == theirs.prompts.tolist()
            self.in_flight |= dict(zip(ours.tickets.tolist(), ours.prompts.tolist(), strict=True))
            self.selected += 1
        self.curriculum = twin

    def check(self) -> None:
        ledger = self.curriculum.ledger
        assert ledger.selected == self.selected == self.observed + self.dropped + len(self.in_flight)
        assert (ledger.observed, ledger.dropped) == (self.observed, self.dropped)
        assert sorted(ledger.tickets.tolist()) == sorted(self.in_flight)
        marked = np.flatnonzero(self.curriculum.table["in_flight"]).tolist()
        assert marked == sorted(set(self.in_flight.values()))


def main(
    operations: Annotated[int, typer.Option(help="How many calls, shared out over the methods.")] = 10**6,
    seed: Annotated[int, typer.Option(help="The seed of the calls.")] = 0,
) -> None:
    """Call every method at random, and check it after each call."""
    share, begun = -(-operations // len(SELECTIONS)), time.process_time()
    for selection in SELECTIONS:
        caller, counts = (
            Caller(selection, seed),
            dict.fromkeys(("select", "observe", "drop", "wrong", "resume"), 0),
        )
        for number in range(share):
            try:
                counts[caller.call()] += 1
            except Exception as error:
                raise AssertionError(f"{selection}, seed {seed}, call {number}: {error!r}") from error
        print(f"{selection:58}{counts}", flush=True)
    print(f"{share * len(SELECTIONS)} calls without a violation, {time.process_time() - begun:.0f} s")


if __name__ == "__main__":
    typer.run(main)

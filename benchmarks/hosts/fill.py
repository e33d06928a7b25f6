"""How long batches take to fill, and how busy the engine is: asynchronous fill against rounds.

    python -m benchmarks.hosts.fill                # the tables of docs/filling.md: one minute
    python -m benchmarks.hosts.fill --quick        # ten seconds

The engine is simulated and time is virtual: a group of G rollouts takes log-normal seconds, half of the
log's variance the prompt's own, and a prompt's pass rate is Beta-distributed. Rounds generate C_max groups,
wait for all, filter, and repeat until the batch is full; both have the same band, slots and prompts. What is
measured in real time is the processor time a group, the simulation included. Gives up: a real engine slows
down as it gets busier, here every slot is as fast as every other.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import run

from curro import Curriculum
from curro.rollout.engines.engine import Prompt, Rollout
from curro.rollout.filler import Filler

MEDIAN_SECONDS, SIGMA, SCORE_SECONDS = 60.0, 0.7, 0.5
PASS_RATES = 0.5, 0.7
ANSWERS = Rollout("wrong"), Rollout("right")


@dataclass
class Setting:
    """Prompts, slots, groups and seed, which both loops share."""

    prompts: int
    slots: int
    batch: int
    group: int
    band: str
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.rate = rng.beta(*PASS_RATES, self.prompts)
        self.scale = MEDIAN_SECONDS * np.exp(SIGMA * np.sqrt(0.5) * rng.standard_normal(self.prompts))

    def curriculum(self) -> Curriculum:
        return Curriculum("uniform", self.prompts, admission=self.band, advantage="group", seed=self.seed)


@dataclass
class Simulated:
    """An engine that answers after log-normal seconds, and knows how many groups it had when."""

    setting: Setting
    running: int = 0
    busy: float = 0.0
    since: float = 0.0
    last_start: tuple[float, float] = (0.0, 0.0)
    seconds: list[float] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def count(self, change: int) -> None:
        now = asyncio.get_running_loop().time()
        self.busy += self.running * (now - self.since)
        self.since, self.running = now, self.running + change
        if change > 0:
            self.last_start = now, self.busy

    async def generate(self, prompt: Prompt, n: int) -> Sequence[Rollout]:
        number = int(str(prompt))
        self.count(+1)
        try:
            seconds = self.setting.scale[number] * np.exp(SIGMA * np.sqrt(0.5) * self.rng.standard_normal())
            right = self.rng.random(n) < self.setting.rate[number]
            await asyncio.sleep(seconds)
            self.seconds.append(seconds)
            return [ANSWERS[int(is_right)] for is_right in right]
        finally:
            self.count(-1)

    async def close(self) -> None:
        pass


async def score(prompt: int, rollouts: Sequence[Rollout]) -> list[float]:
    await asyncio.sleep(SCORE_SECONDS)
    return [float(rollout.text == "right") for rollout in rollouts]


@dataclass
class Result:
    """Sums over batches."""

    label: str
    batches: int = 0
    groups: int = 0
    seconds: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    before_last: list[float] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)
    rejected: int = 0
    unused: int = 0
    scale: list[float] = field(default_factory=list)
    processor: float = 0.0

    def add(self, engine: Simulated, slots: int, since: tuple[float, float]) -> None:
        """A batch that began at `since`, (time, busy seconds), and ends now."""
        engine.count(0)
        start, busy = since
        self.batches += 1
        self.seconds.append(engine.since - start)
        self.idle.append(slots * self.seconds[-1] - (engine.busy - busy))
        last, busy_then = engine.last_start
        if last > start:
            self.lasted.append(slots * (last - start))
            self.before_last.append(self.lasted[-1] - (busy_then - busy))

    def row(self, setting: Setting) -> str:
        idle = np.sum(self.idle) / (setting.slots * np.sum(self.seconds))
        before = f"{np.sum(self.before_last) / np.sum(self.lasted):.1%}" if self.lasted else "-"
        rollouts = self.groups * setting.group / self.batches
        return (
            f"| {self.label} | {np.mean(self.seconds):.0f} | {idle:.1%} | {before} | {rollouts:,.0f} "
            f"| {self.rejected * setting.group / self.batches:,.0f} "
            f"| {self.unused * setting.group / self.batches:,.0f} "
            f"| {np.mean(self.scale) / np.mean(setting.scale):.2f} "
            f"| {self.processor / self.groups * 1e3:.2f} |"
        )


HEADER = (
    "| | s a batch | idle | idle before the last start | rollouts a batch | rejected | unused "
    "| length | ms a group |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)


async def asynchronous(setting: Setting, batches: int, staleness: int, groups: float = np.inf) -> Result:
    engine, result = Simulated(setting), Result(f"filler, `max_staleness={staleness}`")
    async with Filler(
        setting.curriculum(), engine, str, score,
        rollouts_per_prompt=setting.group, max_in_flight=setting.slots, max_staleness=staleness,
    ) as filler:  # fmt: skip
        began = time.process_time()
        while result.batches < batches and filler.counts.given_out < groups:
            engine.count(0)
            since = engine.since, engine.busy
            batch = await filler.fill(setting.batch, step=result.batches)
            result.add(engine, setting.slots, since)
            result.scale += setting.scale[batch.prompts].tolist()
        result.processor = time.process_time() - began
        counts = filler.counts
        result.groups, result.rejected = counts.given_out, counts.rejected
        result.unused = counts.dropped
    return result


async def rounds(setting: Setting, batches: int) -> Result:
    engine, result, curriculum = Simulated(setting), Result("rounds"), setting.curriculum()

    async def rewards_of(prompt: int) -> list[float]:
        return await score(prompt, await engine.generate(str(prompt), setting.group))

    began = time.process_time()
    for step in range(batches):
        engine.count(0)
        since, admitted = (engine.since, engine.busy), np.empty(0, np.int64)
        while len(admitted) < setting.batch:
            draw = curriculum.select(setting.slots, step=step)
            rewards_PG = await asyncio.gather(*(rewards_of(int(prompt)) for prompt in draw.prompts))
            verdict = curriculum.observe(draw.tickets, rewards_PG)
            admitted = np.concatenate([admitted, draw.prompts[verdict.admitted]])
            result.groups += len(draw)
            result.rejected += int(np.sum(~verdict.admitted))
        result.add(engine, setting.slots, since)
        result.unused += len(admitted) - setting.batch
        result.scale += setting.scale[admitted[: setting.batch]].tolist()
    result.processor = time.process_time() - began
    return result


def main(
    batches: Annotated[int, typer.Option(help="batches of each")] = 300,
    prompts: Annotated[int, typer.Option(help="prompts in the data set")] = 100_000,
    slots: Annotated[int, typer.Option(help="C_max: groups at a time")] = 64,
    batch: Annotated[int, typer.Option(help="groups in a batch")] = 16,
    group: Annotated[int, typer.Option(help="rollouts in a group")] = 16,
    band: Annotated[str, typer.Option(help="which groups are admitted")] = "band:0.3,0.7",
    seed: Annotated[int, typer.Option()] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="few batches and groups")] = False,
) -> None:
    """Print the tables."""
    setting = Setting(prompts, slots, batch, group, band, seed)
    if quick:
        batches = min(batches, 20)
    print(f"{batches} batches of {batch} groups of {group}, {band}, C_max {slots}\n\n{HEADER}")
    print(run(rounds(setting, batches)).row(setting))
    for staleness in (0, 1, 2):
        print(run(asynchronous(setting, batches, staleness)).row(setting))
    many = 10_000 if quick else 100_000
    result = run(asynchronous(setting, sys.maxsize, 0, many))
    print(
        f"\n{result.groups:,} groups in {result.batches:,} batches: "
        f"{result.processor / result.groups * 1e3:.2f} ms of processor time a group"
    )


if __name__ == "__main__":
    typer.run(main)

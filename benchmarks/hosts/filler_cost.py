"""What the filler itself costs: groups from an engine that answers at once, up to a hundred thousand of them.

    taskset -c 0 python -m benchmarks.hosts.filler_cost [--most 100000] [--in-flight 256] [--batch 64]

The engine gives its rollouts after one turn of the event loop, and the scorer compares two strings, so that
all that is measured is the filler, the port and asyncio. Half of the groups have a pass rate within the band
0.3 to 0.7; the others are rejected. A cost that grows with the number of groups is a defect, and so is memory
that does. The port alone selects and observes the same number of groups, four at a time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import write_page
from benchmarks.hosts.fill_server import give_out, score

from curro import Curriculum
from curro.rollout.engines.engine import Rollout
from curro.rollout.filler import Filler

PROMPTS, GROUP = 1_000_000, 8
RIGHT, WRONG = Rollout("right"), Rollout("wrong")


class AtOnce:
    """An engine whose even prompts are solved in half of the rollouts, the odd ones never."""

    async def generate(self, prompt: str, n: int) -> Sequence[Rollout]:
        await asyncio.sleep(0)
        right = 0 if int(prompt) % 2 else n // 2
        return [RIGHT] * right + [WRONG] * (n - right)

    async def close(self) -> None:
        pass


def curriculum() -> Curriculum:
    return Curriculum("uniform", PROMPTS, admission="band:0.3,0.7", advantage="group", seed=0)


async def fill(groups: int, in_flight: int, batch: int) -> tuple[float, float]:
    """Processor time of a group in microseconds, and by how many megabytes memory has grown since a tenth."""
    started = time.process_time()
    async with Filler(
        curriculum(), AtOnce(), str, score, rollouts_per_prompt=GROUP, max_in_flight=in_flight
    ) as filler:
        grown = await give_out(filler, groups, batch)
        return 1e6 * (time.process_time() - started) / filler.counts.given_out, grown


def port(groups: int) -> float:
    """Microseconds of the processor a group, of the port alone."""
    chooser, rewards = curriculum(), np.repeat([[1.0, 0.0]], 4, axis=0).repeat(GROUP // 2, axis=1)
    started = time.process_time()
    for step in range(groups // 4):
        chooser.observe(chooser.select(4, step=step).tickets, rewards)
    return 1e6 * (time.process_time() - started) / groups


def main(
    most: Annotated[int, typer.Option(help="how many groups at most")] = 100_000,
    in_flight: Annotated[int, typer.Option(help="how many at a time")] = 256,
    batch: Annotated[int, typer.Option(help="admitted groups of a batch")] = 64,
    quick: Annotated[bool, typer.Option(help="a few groups, nothing written")] = False,
) -> None:
    most = 2_000 if quick else most
    asyncio.run(fill(500, in_flight, batch))  # compiles
    lines = ["| groups | filler, us a group | of it the port, us | memory grew by, MB |", "|--:|--:|--:|--:|"]
    for groups in (most // 100, most // 10, most):
        cost, grown = asyncio.run(fill(groups, in_flight, batch))
        lines.append(f"| {groups:,} | {cost:.0f} | {port(groups):.0f} | {grown:.1f} |")
        typer.echo(lines[-1])
    if not quick:
        command = "taskset -c 0 python -m benchmarks.hosts.filler_cost"
        write_page("filler-cost", "What the filler costs", command, "\n".join(lines))


if __name__ == "__main__":
    typer.run(main)

"""How many programs the code reward scores per second, and whether an event loop goes on meanwhile.

    python -m benchmarks.reliability.code_reward [--programs 1000] [--tests 5] [--kind runs|asserts]

A quarter of the programs is wrong at the last test, so that every test of nearly every program is run. The
largest gap is how long a task that wants to run every 10 ms had to wait at most: what scoring costs a filler.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from typing import Any

from curro.reward import resolve_reward


def job(number: int, tests: int, kind: str) -> tuple[str, dict[str, Any]]:
    """A program that adds its number to what it is given, every fourth one wrong for the last test."""
    slip = f" + (x == {tests - 1})" if number % 4 == 0 else ""
    if kind == "runs":
        program = f"x = int(input())\nprint(x + {number}{slip})"
        cases: Any = [{"input": f"{x}\n", "output": f"{x + number}\n"} for x in range(tests)]
    else:
        program = f"def add(x):\n    return x + {number}{slip}"
        cases = [f"assert add({x}) == {x + number}" for x in range(tests)]
    return program, {"prompt": "", "answer": None, "key": str(number), "tests": cases}


async def measure(programs: int, tests: int, kind: str) -> None:
    reward = resolve_reward("code:sandbox=required,seconds=30")
    jobs = [job(number, tests, kind) for number in range(programs)]
    gap = 0.0

    async def tick() -> None:
        nonlocal gap
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gap = max(gap, time.monotonic() - before)

    ticking = asyncio.ensure_future(tick())
    started = time.monotonic()
    named = await reward.named_async([program for program, _ in jobs], [row for _, row in jobs])
    seconds = time.monotonic() - started
    ticking.cancel()
    (scores,) = named.values()
    expected = [float(number % 4 > 0) for number in range(programs)]
    assert scores == expected, "some programs were misjudged"
    print(
        f"{programs} programs of {tests} {kind}, {os.cpu_count()} cores: {seconds:.1f} s, "
        f"{programs / seconds:.1f} programs/s, {programs * tests / seconds:.1f} tests/s, all judged right; "
        f"largest gap of the event loop {1000 * gap:.0f} ms; load average {os.getloadavg()[0]:.0f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=5)
    parser.add_argument("--kind", choices=("runs", "asserts"), default="runs")
    options = parser.parse_args()
    asyncio.run(measure(options.programs, options.tests, options.kind))

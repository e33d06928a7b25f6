"""What a filler costs that has a thousand groups in flight on a server, and cancels as many with every batch.

    python -m benchmarks.hosts.fill_server [--groups 20000] [--in-flight 1000] [--batch 256]

The server (`completion_server.py`) is a process of its own on loopback that streams completions over HTTP.
The gate is the band 0.3 to 0.7 and `max_staleness` is 0: when a batch is full, all other requests are
cancelled by hanging up, which the server counts. Processor times are of the whole client, openai's included;
memory is what it has at the end more than after its first tenth.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer
from benchmarks.common import write_page

from curro import Curriculum
from curro.rollout.engines.engine import Rollout
from curro.rollout.engines.openai_server import OpenAIEngine
from curro.rollout.filler import Filler

PROMPTS = 200_000


async def score(prompt: int, rollouts: Sequence[Rollout]) -> list[float]:
    return [float(rollout.text == "right") for rollout in rollouts]


def counts(address: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{address}/counts", timeout=60) as answer:
        requests: dict[str, int] = json.load(answer)
    return requests


def start(port: int) -> subprocess.Popen[bytes]:
    """The server, once it answers."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.hosts.completion_server", str(port)])
    for _ in range(200):
        time.sleep(0.1)
        try:
            counts(f"http://127.0.0.1:{port}")
            return process
        except OSError:
            continue
    process.kill()
    raise SystemExit("the server did not start")


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def give_out(filler: Filler, groups: int, batch: int) -> float:
    """Full batches until so many groups were given out; by how many megabytes memory grew since a tenth."""
    step, first = 0, 0.0
    while filler.counts.given_out < groups:
        got = await filler.fill(batch, step=step)
        assert got.admitted.all()
        step += 1
        if not first and filler.counts.given_out >= groups / 10:
            gc.collect()
            first = resident()
    gc.collect()
    return resident() - first


async def fill(address: str, groups: int, in_flight: int, batch: int, group: int) -> tuple[Filler, float]:
    """Batches until so many groups were given out; the filler, and by how much memory has grown."""
    engine = OpenAIEngine(address, max_new_tokens=64, connections=in_flight * group)
    curriculum = Curriculum("uniform", PROMPTS, admission="band:0.3,0.7", advantage="group", seed=0)
    async with Filler(
        curriculum, engine, str, score, rollouts_per_prompt=group, max_in_flight=in_flight
    ) as filler:
        grown = await give_out(filler, groups, batch)
    await engine.close()
    port = curriculum.metrics()
    assert port["in_flight"] == 0
    assert port["selected"] == port["observed"] + port["dropped"]
    return filler, grown


def main(
    groups: Annotated[int, typer.Option(help="how many are given out")] = 20_000,
    in_flight: Annotated[int, typer.Option(help="how many at a time")] = 1000,
    batch: Annotated[int, typer.Option(help="admitted groups of a batch")] = 256,
    group: Annotated[int, typer.Option(help="rollouts of a group")] = 8,
    quick: Annotated[bool, typer.Option(help="a few groups, nothing written")] = False,
) -> None:
    if quick:
        groups, in_flight, batch = 400, 100, 32
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    server = start(port)
    try:
        began, spent = time.perf_counter(), time.process_time()
        filler, grown = asyncio.run(fill(address, groups, in_flight, batch, group))
        seconds, spent = time.perf_counter() - began, time.process_time() - spent
        time.sleep(1.0)
        requests = counts(address)
    finally:
        server.terminate()
        server.wait()
    count = filler.counts
    table = f"""| {in_flight:,} groups of {group} in flight, batches of {batch} in 0.3 to 0.7 | |
|---|--:|
| groups given out | {count.given_out:,} |
| admitted, rejected, cancelled | {count.admitted:,}, {count.rejected:,}, {count.cancelled:,} |
| failed | {count.failed:,} |
| groups a second | {count.given_out / seconds:,.0f} |
| milliseconds of the client's processor a group | {1e3 * spent / count.given_out:.2f} |
| the client's memory grew by | {grown:.0f} MB |
| requests at the server: answered, hung up, running in the end | {requests["answered"]:,}, {requests.get("hung up", 0):,}, {requests["running"]} |
"""  # noqa: E501
    typer.echo(table)
    if requests["running"]:
        raise SystemExit(f"{requests['running']} requests still run on the server")
    if not quick:
        write_page(
            "fill-server",
            "A thousand groups in flight on a server",
            "python -m benchmarks.hosts.fill_server",
            table,
        )


if __name__ == "__main__":
    typer.run(main)

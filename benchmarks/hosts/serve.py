"""`curro serve` under load: how many selects and observes it answers in a second.

    python -m benchmarks.hosts.serve

A server of its own process on loopback, and clients in processes of their own. Each client observes a draw
and selects the next as fast as it is answered. At the end the books are compared: every draw was given once,
and every outcome counted once. `benchmarks.reliability.kills service` kills the server meanwhile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer

from curro.contrib.serve import ServedCurriculum

CLIENT = "client"


def start(config: Path) -> tuple[subprocess.Popen[str], str]:
    """A server that answers, and its address."""
    server = subprocess.Popen(
        [sys.executable, "-m", "curro", "serve", str(config), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if " prompts at " not in line:
        raise RuntimeError(f"the server did not start: {line}")
    return server, line.split(" prompts at ")[1].split(";")[0]


def ask(address: str, token: str, batch: int, out: Path) -> None:
    """A client's process, until the file `end` is there: what it was given and what it reported, as JSON."""
    curriculum, end = ServedCurriculum(address, token, patience=600), out.with_name("end")
    rng = np.random.default_rng(os.getpid())
    tickets: list[int] = []
    began = time.monotonic()
    calls = 0
    while not end.exists():
        draw = curriculum.select(batch, step=0)
        tickets += draw.tickets.tolist()
        curriculum.observe(draw.tickets, rng.integers(0, 2, (batch, 8)))
        calls += 1
    out.write_text(json.dumps({"tickets": tickets, "calls": calls, "seconds": time.monotonic() - began}))


def main(
    prompts: Annotated[int, typer.Option(help="how many")] = 10**5,
    clients: Annotated[int, typer.Option(help="processes that ask")] = 4,
    batch: Annotated[int, typer.Option(help="prompts of a select")] = 64,
    seconds: Annotated[float, typer.Option(help="how long they ask")] = 10.0,
    selection: Annotated[str, typer.Option(help="the method")] = "prioritized-replay",
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = folder / "serve.toml"
        config.write_text(
            f'prompts = {prompts}\nfolder = "{folder / "live"}"\n[curriculum]\nselection = "{selection}"\n'
        )
        server, address = start(config)
        token = (folder / "live" / "token").read_text()
        warm = ServedCurriculum(address, token)
        draw = warm.select(batch, step=0)
        warm.observe(draw.tickets, np.zeros((batch, 8)))
        tickets = draw.tickets.tolist()
        outs = [folder / f"client-{number}.json" for number in range(clients)]
        command = [sys.executable, "-m", "benchmarks.hosts.serve", CLIENT, address, token, f"{batch}"]
        asking = [subprocess.Popen([*command, out]) for out in outs]
        time.sleep(seconds)
        (folder / "end").touch()
        for process in asking:
            if process.wait():
                raise RuntimeError("a client failed")
        reports = [json.loads(out.read_text()) for out in outs]
        metrics = warm.metrics()
        server.terminate()
        server.wait()
        for report in reports:
            tickets += report["tickets"]
        assert sorted(tickets) == list(range(len(tickets))), "a draw was lost or given twice"
        assert metrics["selected"] == metrics["observed"] == len(tickets), "an outcome was lost"
        rate = sum(report["calls"] for report in reports) / max(report["seconds"] for report in reports)
        print(
            f"{rate:,.0f} selects of {batch} with their observes a second, {clients} clients, {prompts:,} "
            f"prompts: {len(tickets):,} draws, each given once and counted once"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == [CLIENT]:
        address, token, batch, out = sys.argv[2:]
        ask(address, token, int(batch), Path(out))
    else:
        typer.run(main)

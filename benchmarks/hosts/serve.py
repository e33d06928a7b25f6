"""`curro serve` under load: what it answers in a second, and what is left of it after kills.

    python -m benchmarks.hosts.serve                  # the rate, in selects of 64 and observes a second
    python -m benchmarks.hosts.serve --kills 10       # the server is killed (SIGKILL) meanwhile

A server of its own process on loopback, and clients in processes of their own. Each client observes a draw
and selects the next in one request, or in two (`--apart`), as fast as it is answered. At the end the books
are compared: every draw that a client was given was given once, every outcome counted once, the metrics add
up, and with kills the run folder has each group's line once and all rollouts in its last line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer

from curro.contrib.serve import ServedCurriculum
from curro.runs.folder import RunFolder

CLIENT = "client"


def start(config: Path, port: int) -> tuple[subprocess.Popen[str], int]:
    """A server that answers, and its port."""
    server = subprocess.Popen(
        [sys.executable, "-m", "curro", "serve", str(config), "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if "127.0.0.1:" not in line:
        raise RuntimeError(f"the server did not start: {line}")
    return server, int(line.split("127.0.0.1:")[1].split(";")[0])


def ask(address: str, token: str, batch: int, is_apart: bool, out: Path) -> None:
    """A client's process, until the file `end` is there: what it was given and what it reported, as JSON."""
    curriculum, end = ServedCurriculum(address, token, patience=600), out.with_name("end")
    rng = np.random.default_rng(os.getpid())
    tickets: list[int] = []
    calls = 0
    began, worked = time.monotonic(), time.process_time()
    draw = curriculum.select(batch, step=0)
    while not end.exists():
        tickets += draw.tickets.tolist()
        rewards = rng.integers(0, 2, (batch, 8))
        if is_apart:
            curriculum.observe(draw.tickets, rewards)
            draw = curriculum.select(batch, step=0)
        else:
            _, following = curriculum.observe_and_select(draw.tickets, rewards, n=batch, step=0)
            assert following is not None
            draw = following
        calls += 1
    spent = time.monotonic() - began
    tickets += draw.tickets.tolist()
    curriculum.observe(draw.tickets, np.zeros((batch, 8)))
    curriculum.close()
    books = {"tickets": tickets, "calls": calls, "seconds": spent, "cpu": time.process_time() - worked}
    out.write_text(json.dumps(books))


def journal_bytes(folder: Path) -> int:
    """How long the service's journal is."""
    return sum(path.stat().st_size for path in folder.glob("*.journal"))


def cpu_seconds(pid: int) -> float:
    """What a process has worked so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(
    prompts: Annotated[int, typer.Option(help="how many")] = 10**6,
    clients: Annotated[int, typer.Option(help="processes that ask")] = 4,
    batch: Annotated[int, typer.Option(help="prompts of a select")] = 64,
    seconds: Annotated[float, typer.Option(help="how long they ask")] = 10.0,
    kills: Annotated[int, typer.Option(help="of the server, meanwhile")] = 0,
    selection: Annotated[str, typer.Option(help="the method")] = "prioritized-replay",
    apart: Annotated[bool, typer.Option(help="a request for the observe, and one for the select")] = False,
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = folder / "serve.toml"
        written = f'run_folder = "{folder / "run"}"\n' if kills else ""
        config.write_text(
            f'prompts = {prompts}\nfolder = "{folder / "live"}"\n{written}'
            f'[curriculum]\nselection = "{selection}"\n'
        )
        server, port = start(config, 0)
        token = (folder / "live" / "token").read_text()
        address = f"http://127.0.0.1:{port}"
        warm = ServedCurriculum(address, token)
        draw = warm.select(batch, step=0)
        warm.observe(draw.tickets, np.zeros((batch, 8)))
        tickets = draw.tickets.tolist()
        worked = cpu_seconds(server.pid)
        outs = [folder / f"client-{number}.json" for number in range(clients)]
        asking = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.hosts.serve",
                    CLIENT,
                    address,
                    token,
                    f"{batch}",
                    f"{apart:d}",
                    out,
                ]
            )
            for out in outs
        ]
        rng = np.random.default_rng(0)
        for _ in range(kills):
            before = journal_bytes(folder / "live")
            while journal_bytes(folder / "live") == before:  # at least one call is answered between two kills
                time.sleep(0.01)
            time.sleep(float(rng.uniform(0, 2 * seconds / kills)))
            server.send_signal(signal.SIGKILL)
            server.wait()
            assert server.stdout is not None
            server.stdout.close()
            server, _ = start(config, port)
        if not kills:
            time.sleep(seconds)
        (folder / "end").touch()
        for process in asking:
            if process.wait():
                raise RuntimeError("a client failed")
        reports = [json.loads(out.read_text()) for out in outs]
        worked = cpu_seconds(server.pid) - worked
        metrics = warm.metrics()
        warm.close()
        server.terminate()
        server.wait()
        for report in reports:
            tickets += report["tickets"]
        assert sorted(tickets) == list(range(len(tickets))), "a draw was lost or given twice"
        assert metrics["selected"] == metrics["observed"] == len(tickets), "an outcome was lost"
        assert metrics["in_flight"] == 0
        if kills:
            lines = RunFolder.open(folder / "run")
            groups = Counter(row["prompt"] for row in lines.groups())
            assert groups.total() == len(tickets), "a group's line is missing, or stands twice"
            assert lines.metrics()[-1]["rollouts"] == 8 * len(tickets), "the last line has other rollouts"
        calls = sum(report["calls"] for report in reports)
        rate = calls / max(report["seconds"] for report in reports)
        print(
            f"{rate:,.0f} selects of {batch} with observes a second{', apart' * apart}, {clients} clients, "
            f"{prompts:,} prompts, {kills} kills: {len(tickets):,} draws, each given once and counted once"
        )
        if not kills:
            each = sum(report["cpu"] for report in reports) / calls
            print(
                f"processor time of a pair: server {worked / calls * 1e6:,.0f} us, client {each * 1e6:,.0f}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == [CLIENT]:
        address, token, batch, is_apart, out = sys.argv[2:]
        ask(address, token, int(batch), is_apart == "1", Path(out))
    else:
        typer.run(main)

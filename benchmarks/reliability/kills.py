"""Processes killed (SIGKILL) at random moments: what is resumed must equal what was never interrupted.

    python -m benchmarks.reliability.kills train --kills 100    # `curro train` in TRL: 20 minutes
    python -m benchmarks.reliability.kills filler --kills 60    # the asynchronous filler: 1 minute
    python -m benchmarks.reliability.kills owner --kills 40     # verl's owner, with verl: 1 minute
    python -m benchmarks.reliability.kills service --kills 40   # `curro serve`, asked by a client: 2 minutes
    python -m benchmarks.reliability.kills count                # what the rows hold

A program is run once to its end, and then again and again with a kill each, from the state that the killed
one left behind, until the kills are used up. Whenever it comes to its end, all that it left is compared with
the uninterrupted run, byte for byte, and a row is added to benchmarks/results/kills.jsonl; a run that differs
ends the benchmark, and its folder is kept. Half of the kills come after a random time, half as soon as a
file is seen that is only half there. The service may lose a step by a kill, so what is compared there is what
its client checks at the end. `--kills` counts the rows that are there, and `--seconds` ends the
benchmark early, so that it can be made in parts.
The programs are forked from this process, which has imported everything, so a restart costs no import. Gives
up: power cuts, which lose what the operating system had not written yet.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import RESULTS
from benchmarks.common import run as in_virtual_time

from curro import Curriculum
from curro.core import checkpoint
from curro.core.files import replacing
from curro.runs.json_lines import append_rows, read_rows

ROWS = RESULTS / "kills.jsonl"
METHODS = ("prioritized-replay", "frontier", "pspo")
STEPS = 12


def in_child(program: Callable[[], None], log: Path) -> int:
    """Run it in a process of its own, whose output goes to a file; returns the process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        program()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def half_written(folder: Path) -> bool:
    """Whether a file or a checkpoint of the folder is being written right now."""
    if any(folder.rglob("*.part")):
        return True
    checkpoints = (folder / "checkpoints").glob("checkpoint-*")
    return any(not (path / "curro" / "curriculum.npz").exists() for path in checkpoints)


def attempt(
    program: Callable[[], None], folder: Path, log: Path, *, rng: random.Random, seconds: float
) -> str:
    """Run the program and kill it; says whether it was killed "at random", "while writing", or "ended"."""
    pid, begun = in_child(program, log), time.monotonic()
    while_writing = rng.random() < 0.5
    until = rng.uniform(0, 0.6 * seconds)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError(f"the program failed with {status}:\n{log.read_text()[-3000:]}")
            return "ended"
        late = time.monotonic() - begun > until
        if late and (not while_writing or half_written(folder)):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "while writing" if while_writing else "at random"
        time.sleep(0.0005 if while_writing else 0.005)


def kill_again_and_again(
    start: Callable[[Path], Callable[[], None]],
    result: Callable[[Path], Any],
    kills: int,
    *,
    seed: int,
    until: float,
    note: Callable[[dict[str, int]], None],
) -> None:
    """Notes, of each run that came to its end, how often it was killed before; all equal one without a kill.

    Raises:
        AssertionError: a run ended otherwise; its folder is kept.
    """
    base = Path(tempfile.mkdtemp(prefix="curro-kills-"))
    steady, log = base / "steady", base / "log"
    begun = time.monotonic()
    _, status = os.waitpid(in_child(start(steady), log), 0)
    if status:
        raise RuntimeError(f"the uninterrupted program failed:\n{log.read_text()[-3000:]}")
    seconds, expected = time.monotonic() - begun, result(steady)
    run = done = 0
    while done < kills and time.monotonic() < until:
        folder, rng = base / f"run-{run}", random.Random(f"{seed}, {run}")
        counts, how = {"at random": 0, "while writing": 0}, ""
        while how != "ended":
            enough = done >= kills
            limit = 10 * seconds if enough else seconds
            how = attempt(start(folder), folder, log, rng=rng, seconds=limit)
            if how in counts:
                counts[how] += 1
                done += 1
        if result(folder) != expected:
            raise AssertionError(f"a resumed run differs from the uninterrupted one: compare {base}")
        note(counts)
        shutil.rmtree(folder)
        run += 1
    shutil.rmtree(base)


# ------------------------------ the programs ------------------------------


def train(method: str) -> Callable[[Path], Callable[[], None]]:
    """`curro train` on the lab, a checkpoint after every step; goes on where its folder says."""

    def start(folder: Path) -> Callable[[], None]:
        def program() -> None:
            from curro.cli import make_app

            begun = ["--resume", str(folder)] if (folder / "config.json").exists() else None
            if begun is None:
                shutil.rmtree(folder, ignore_errors=True)
            fresh = [
                "--data",
                "lab:chains",
                "--limit",
                "60",
                "--curriculum",
                method,
                "--prompts-per-step",
                "4",
            ]
            fresh += ["--rollouts", str(32 * STEPS), "--eval-every", "0", "--eval-prompts", "5"]
            fresh += ["--save-every", "1", "--out", str(folder)]
            make_app(["train"])(["train", *(begun or fresh)])

        return program

    return start


def trained(folder: Path) -> tuple[bytes, bytes]:
    """The finished groups and the weights."""
    return (folder / "groups.jsonl").read_bytes(), (folder / "model" / "model.safetensors").read_bytes()


def filler(method: str) -> Callable[[Path], Callable[[], None]]:
    """Batches filled from a simulated engine; the curriculum is saved after each with what was trained on."""
    from curro.rollout.engines.engine import Prompt, Rollout
    from curro.rollout.fill_settings import FillSettings
    from curro.rollout.filler import Filler

    class Engine:
        async def generate(self, prompt: Prompt, n: int) -> list[Rollout]:
            await asyncio.sleep(1 + int(str(prompt)) % 7)
            return [Rollout(str((int(str(prompt)) * 7 + i) % 5)) for i in range(n)]

        async def close(self) -> None:
            pass

    async def score(prompt: int, rollouts: Any) -> list[float]:
        return [float(rollout.text in "01") for rollout in rollouts]

    def start(folder: Path) -> Callable[[], None]:
        def program() -> None:
            folder.mkdir(exist_ok=True)
            curriculum = Curriculum(method, 400, admission="signal", advantage="group", seed=1)
            saved, batches = folder / "state.npz", []
            if saved.exists():
                state = checkpoint.load_state(saved)
                curriculum.load_state_dict(state["curriculum"])
                batches = state["batches"]

            async def run() -> None:
                engine = Engine()
                many = Filler(
                    curriculum, engine, str, score, rollouts_per_prompt=4, max_in_flight=8,
                    fill=FillSettings(limit=40),
                )  # fmt: skip
                async with many:
                    for step in range(len(batches), 10 * STEPS):
                        batch = await many.fill(4, step=step)
                        batches.append([np.asarray(batch.prompts).tolist(), batch.credit.tolist()])
                        checkpoint.save_state(
                            saved, {"curriculum": curriculum.state_dict(), "batches": list(batches)}
                        )

            in_virtual_time(run())
            (folder / "end.json").write_text(json.dumps(batches))

        return program

    return start


def filled(folder: Path) -> bytes:
    """The prompts and the credit of all batches."""
    return (folder / "end.json").read_bytes()


def owner(method: str) -> Callable[[Path], Callable[[], None]]:
    """verl's owner without Ray, and a trainer that saves it every second step, as verl does."""
    from curro.core.groups import Feedback
    from curro.hosts.verl.owner import CurriculumOwner
    from curro.runs.writer import Completion

    class Rows:
        keys = tuple(str(row) for row in range(300))
        fingerprint = "three hundred"
        rows = None

    def start(folder: Path) -> Callable[[], None]:
        def program() -> None:
            folder.mkdir(exist_ok=True)
            own, latest = CurriculumOwner(), folder / "latest.json"
            generated = [Completion("", 1, False)] * 4
            own.build({"selection": method, "seed": 2}, Rows(), folder)
            done = json.loads(latest.read_text()) if latest.exists() else 0
            if done:
                own.load(folder / f"step-{done}.npz", [], done)
            for step in range(done, 10 * STEPS):
                draw = own.select(8, step)
                own.observe(Feedback.read(draw.tickets, rewards_of(draw.prompts)), [generated] * len(draw))
                own.write_step(step + 1, {})
                if step % 2:
                    own.curriculum.save(folder / f"step-{step + 1}.npz")
                    with replacing(latest) as part:  # verl calls the checkpoint complete now
                        part.write_text(json.dumps(step + 1))
            (folder / "end.json").write_text(json.dumps([repr(own.metrics()), own.writer.rollouts]))

        return program

    return start


def rewards_of(prompts: np.ndarray) -> np.ndarray:
    """Rewards (P, 4) that depend on the prompts alone."""
    return ((prompts[:, None] * 3 + np.arange(4)) % 4 == 0).astype(float)


def owned(folder: Path) -> tuple[bytes, bytes]:
    """The finished groups, and the metrics at the end."""
    return (folder / "curro" / "groups.jsonl").read_bytes(), (folder / "end.json").read_bytes()


def service(method: str) -> Callable[[Path], Callable[[], None]]:
    """`curro serve` at a port of its own, which alone is killed, and a client that ends it."""
    from curro.contrib.serve import ServedCurriculum
    from curro.contrib.serve.run import serve, token_of

    def ask(folder: Path) -> None:
        port = ServedCurriculum((folder / "address").read_text(), token_of(folder / "live"), patience=600)
        tickets: list[int] = []
        for step in range(20 * STEPS):
            draw = port.select(8, step=step)
            tickets += draw.tickets.tolist()
            port.observe(draw.tickets, rewards_of(draw.prompts))
        about, metrics = port.about(), port.metrics()
        checks = {
            "each ticket was given out once": len(set(tickets)) == len(tickets),
            "selected = observed + dropped": metrics["selected"] == metrics["observed"] + metrics["dropped"],
            # the step under way, and the one before where its successor's first draw was not answered
            "a kill lost two steps or fewer": metrics["observed"] >= len(tickets) - 16 * about["start"],
        }
        with replacing(folder / "end.json") as part:
            part.write_text(json.dumps(checks))

    def start(folder: Path) -> Callable[[], None]:
        if not folder.exists():
            (folder / "live").mkdir(parents=True)
            with socket.create_server(("127.0.0.1", 0)) as probe:
                (folder / "address").write_text(f"http://127.0.0.1:{probe.getsockname()[1]}")
            in_child(lambda: ask(folder), folder / "client.log")

        def end_with_client() -> None:
            port = int((folder / "address").read_text().rpartition(":")[2])
            while not ((folder / "end.json").exists() and answers(port)):  # else no handler is there yet
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)

        def program() -> None:
            curriculum = Curriculum(method, 300, seed=2)
            threading.Thread(target=end_with_client, daemon=True).start()
            port = int((folder / "address").read_text().rpartition(":")[2])
            serve(curriculum, folder / "live", port=port, say=print)

        return program

    return start


def answers(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def served(folder: Path) -> str:
    """Which checks of the client passed; its process ends after the service's."""
    text = (folder / "end.json").read_text()
    assert "false" not in text, text
    return text


SUBJECTS = {
    "train": (train, trained),
    "filler": (filler, filled),
    "owner": (owner, owned),
    "service": (service, served),
}


def kills_of(row: dict[str, Any]) -> int:
    return row["at random"] + row["while writing"]


def count() -> None:
    """Print what the rows hold."""
    rows = list(read_rows(ROWS))
    for subject in SUBJECTS:
        of = [row for row in rows if row["subject"] == subject and kills_of(row)]
        print(
            f"{subject}: {sum(map(kills_of, of))} kills, {sum(row['while writing'] for row in of)} of them "
            f"while a file was half written; {len(of)} resumed runs ended as they should"
        )


def main(
    subject: Annotated[
        str, typer.Argument(help="What is killed: train, filler, owner or service; or count.")
    ],
    kills: Annotated[int, typer.Option(help="How many kills, shared out over three methods.")] = 60,
    seed: Annotated[int, typer.Option(help="The seed of the moments.")] = 0,
    seconds: Annotated[float, typer.Option(help="Begin no run after so long.")] = 86_400.0,
) -> None:
    """Kill a program again and again, and compare what it leaves with an uninterrupted run."""
    if subject == "count":
        count()
        return
    make, result = SUBJECTS[subject]
    until = time.monotonic() + seconds
    if subject == "train":
        import curro.training.run  # noqa: F401 - imported once, before the forks
    for number, method in enumerate(METHODS):
        same = {"subject": subject, "method": method}
        before = [row for row in read_rows(ROWS) if row["subject"] == subject and row["method"] == method]
        share = kills // len(METHODS) + (number < kills % len(METHODS)) - sum(map(kills_of, before))
        if share > 0 and time.monotonic() < until:

            def note(counts: dict[str, int], same: dict[str, str] = same) -> None:
                append_rows(ROWS, [same | counts])
                print(f"  {same | counts}", flush=True)

            kill_again_and_again(
                make(method), result, share, until=until, note=note,
                seed=100_000 * seed + 10 * len(before) + number,
            )  # fmt: skip
    count()


if __name__ == "__main__":
    typer.run(main)

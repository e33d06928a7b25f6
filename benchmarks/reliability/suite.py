"""The tests in random order, folder by folder, again and again: which of them fails by chance?

    python -m benchmarks.reliability.suite run                 # every folder of `make test` once: 15 minutes
    python -m benchmarks.reliability.suite run --seconds 1200  # as many as that time allows
    python -m benchmarks.reliability.suite run --busy 2        # beside two processes that only count
    python -m benchmarks.reliability.suite run --targets       # `make verl`, `make tinker` and so on too
    python -m benchmarks.reliability.suite count               # what the rows hold

Each folder runs in a process of its own, those first that have run least, and adds a row to
benchmarks/results/suite.jsonl: its seed, which repeats the order (`pytest --randomly-seed`), its commit, its
seconds, how many cores other programs used meanwhile, and what failed. Hypothesis draws new examples here;
`make test` has the same every time. A whole run of the suite is one row of every folder. Gives up: tests that
disturb one of another folder, which run in one process only under `make test`. Linux only, for the cores that
others used.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer
from benchmarks.common import RESULTS

from curro.runs.json_lines import append_rows, read_rows

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the tests, as the Makefile has it

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ROWS = RESULTS / "suite.jsonl"
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
APART = PYTEST["norecursedirs"]
"""Folders that `make test` leaves to targets of their own."""

TARGETS = {
    "sandbox": (".venv", ["tests/reward/sandbox", "tests/training/evaluation/sandbox"]),
    "browser": (".venv", ["tests/browser"]),
    "contrib": (
        ".venv",
        [
            f"tests/contrib/{name}"
            for name in (
                "doctor",
                "function_calls",
                "prime_rl",
                "serve",
                "server_policy",
                "slime",
                "watch",
                "test_other_methods.py",
            )
        ],
    ),
    "docs-blocks": (".venv", ["README.md", "CONTRIBUTING.md", "docs", "tests/docs"]),
    **{
        name: (f".venv-{name}", ["-c", f"tests/{folder}/pytest.ini", f"tests/{folder}"])
        for name, folder in {
            "bfcl": "contrib/bfcl",
            "loggers": "loggers",
            "skyrl": "contrib/skyrl",
            "tinker": "contrib/tinker",
            "trinity": "contrib/trinity",
            "trl-async": "contrib/trl_async",
            "verl": "hosts/verl",
        }.items()
    },
}
"""By the name of its target in the Makefile: the environment, and what pytest is called with."""


@dataclass(frozen=True)
class Unit:
    """The tests that one process of pytest runs."""

    name: str
    python: str
    arguments: list[str]


def units(with_targets: bool) -> list[Unit]:
    """Every folder of `make test`, and what lies beside them; with the other targets if wanted."""
    every = []
    for folder in (TESTS, TESTS / "hosts"):
        own = [str(path.relative_to(ROOT)) for path in sorted(folder.glob("test_*.py"))]
        every += [Unit(folder.name, sys.executable, own)] if own else []  # without a file pytest runs all
        inside = [path for path in sorted(folder.iterdir()) if path.name not in (*APART, "hosts")]
        every += [
            Unit(str(path.relative_to(TESTS)), sys.executable, [str(path.relative_to(ROOT))])
            for path in inside
            if path.is_dir() and any(path.rglob("test_*.py"))
        ]
    if with_targets:
        for name, (environment, arguments) in TARGETS.items():
            python = sys.executable if environment == ".venv" else str(ROOT / environment / "bin/python")
            every.append(Unit(f"make {name}", python, arguments))
    return every


def busy_seconds() -> float:
    """How long all cores together have worked since the machine was started."""
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def children_seconds() -> float:
    """How long this process's ended children have worked, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_unit(unit: Unit, seed: int) -> dict[str, Any]:
    """Its tests in the order of the seed, as a row."""
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder) / "report.xml", Path(folder) / "log"
        command = [unit.python, "-m", "pytest", *unit.arguments, "-q", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", f"--basetemp={folder}/pytest"]
        if "-c" not in unit.arguments:  # targets keep their order and their examples
            command += [f"--randomly-seed={seed}", "--hypothesis-profile=new"]
        begun, worked, own = time.monotonic(), busy_seconds(), children_seconds()
        with log.open("wb") as output:
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output).returncode
        seconds, own = time.monotonic() - begun, children_seconds() - own
        others = (busy_seconds() - worked - own) / seconds
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        failed = [
            f"{case.get('classname')}::{case.get('name')}"
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        ]
        if code not in (0, 1):
            failed.append(f"pytest ended with {code}")
        if failed:
            kept = (
                Path(tempfile.mkdtemp(prefix="curro-suite-"))
                / f"{re.sub('[^a-z]+', '-', unit.name)}-{seed}.log"
            )
            kept.write_bytes(log.read_bytes())
            print(f"{unit.name}, seed {seed}: {', '.join(failed)}: see {kept}", flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "unit": unit.name,
        "seed": seed,
        "commit": commit.stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(own, 1),
        "other_cores": round(max(others, 0.0), 2),
        "tests": len(cases),
        "failed": failed,
    }


def count_until_ended() -> None:
    """Keep a core busy."""
    number = 0
    while True:
        number += 1


app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def run(
    seconds: Annotated[float, typer.Option(help="No folder is begun after this time.")] = 3600.0,
    rounds: Annotated[int, typer.Option(help="How many whole runs are made.")] = 1,
    busy: Annotated[int, typer.Option(help="How many busy processes run beside the tests.")] = 0,
    targets: Annotated[bool, typer.Option("--targets", help="Also what has a target of its own.")] = False,
    only: Annotated[str, typer.Option(help="Only folders whose name matches this regular expression.")] = "",
) -> None:
    """Run the folders that have run least, and add their rows."""
    every = [unit for unit in units(targets) if re.search(only, unit.name)]
    begun = time.monotonic()
    others = [multiprocessing.Process(target=count_until_ended, daemon=True) for _ in range(busy)]
    for process in others:
        process.start()
    rng = random.Random()
    for _ in range(rounds):
        times = Counter(row["unit"] for row in (read_rows(ROWS) if ROWS.exists() else []))
        for unit in sorted(every, key=lambda unit: (times[unit.name], rng.random())):
            if time.monotonic() - begun > seconds:
                return
            row = run_unit(unit, rng.getrandbits(32))
            append_rows(ROWS, [row])
            print(json.dumps(row), flush=True)


@app.command()
def count() -> None:
    """Print how often each folder ran, how often beside load, and what failed."""
    rows = list(read_rows(ROWS))
    half = (os.cpu_count() or 1) / 2
    times = Counter(row["unit"] for row in rows)
    loaded = Counter(row["unit"] for row in rows if row["other_cores"] >= half)
    for name in sorted(times):
        mine = [row for row in rows if row["unit"] == name]
        cpu = sorted(row["cpu_seconds"] for row in mine)[len(mine) // 2]
        print(f"{name:24}{times[name]:4} runs, {loaded[name]:3} beside load, median {cpu:6.0f} CPU s")
    suite = [unit.name for unit in units(False)]
    whole, beside = (min(counter[name] for name in suite) for counter in (times, loaded))
    print(f"make test: {whole} whole runs, {beside} of them beside load")
    failures = Counter((row["commit"], test) for row in rows for test in row["failed"])
    for (commit, test), n in sorted(failures.items()):
        print(f"failed {n} times at {commit}: {test}")
    print(f"{sum(row['tests'] for row in rows)} tests, {sum(failures.values())} failures")


if __name__ == "__main__":
    app()

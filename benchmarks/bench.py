"""The benchmark that compares all methods; its tables go into docs/benchmark.md and each method's page.

    python benchmarks/bench.py              # what benchmarks/results lacks: one night on two cores
    python benchmarks/bench.py --summary    # the tables of the results there are, without a run

It is `curro bench` with its results in benchmarks/results, and goes on from the committed ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer
from variants import DOCS, write

from curro.bench.plan import BASELINE, CEILING
from curro.bench.results import Results
from curro.bench.tables import Sheet, chosen_by, sheets

RESULTS = Path(__file__).parent / "results"
PAGES = {
    "least-visited.md": ("least visited",),
    "difficulty-filtering.md": ("zero-variance refill", "balanced band"),
    "prioritized-replay.md": ("replay", "replay, published"),
    "pspo.md": ("ERS", "PPS", "PSPO"),
    "sec.md": ("SEC",),
    "adcl.md": ("ADCL",),
    "pcl.md": ("PCL",),
    "metis.md": ("METIS",),
    "posterior.md": ("posterior",),
    "frontier.md": ("frontier",),
}
PLACE = "benchmark"


def page(found: list[Sheet], results: Results) -> str:
    """All tables, for docs/benchmark.md."""
    runs = len(results.rows)
    versions = ", ".join(sorted({row["version"] for row in results.rows.values()}))
    devices = ", ".join(sorted({row["device"] for row in results.rows.values()}))
    parts = [f"{runs} runs of curro {versions} on {devices}.\n"]
    parts += [f"### {sheet.title}\n\n{sheet.markdown()}" for sheet in found]
    rates = "".join(f"* {task}: {words}\n" for task, words in chosen_by())
    return "\n".join([*parts, f"### Learning rates\n\n{rates}"])


def rows_of(found: list[Sheet], methods: tuple[str, ...]) -> str:
    """The lines of some methods in the tables over all hard and all easy pools."""
    wanted = (BASELINE, *methods, CEILING)
    parts = [
        f"{sheet.title}:\n\n"
        + Sheet(
            sheet.title, sheet.columns, tuple(row for row in sheet.rows if row[0].split(" (")[0] in wanted)
        ).markdown()
        for sheet in found
        if sheet.title.startswith("All ")
    ]
    return "\n".join(parts)


def main(
    seeds: Annotated[int, typer.Option(help="Runs of each method on each task.")] = 5,
    jobs: Annotated[int | None, typer.Option(help="Runs side by side. [default: one a core]")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Run nothing.")] = False,
) -> None:
    if not summary:
        command = [sys.executable, "-m", "curro", "bench", f"--out={RESULTS}", f"--seeds={seeds}"]
        if subprocess.run(command + ([f"--jobs={jobs}"] if jobs else [])).returncode:
            raise typer.Exit(1)
    results = Results.open(RESULTS / "results.parquet")
    found = sheets(results)
    write(DOCS / "benchmark.md", page(found, results), PLACE)
    for name, methods in PAGES.items():
        write(DOCS / name, rows_of(found, methods), PLACE)


if __name__ == "__main__":
    typer.run(main)

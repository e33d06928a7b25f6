"""Is the estimate of what uniform sampling would find right? Uniform sampling is trained beside it.

    python -m benchmarks.learning.uniform_estimate            # trains what has no row yet
    python -m benchmarks.learning.uniform_estimate --report   # trains nothing, writes the page

A curriculum estimates, from those of its groups whose chance of being drawn it knows, which share of groups
would have a signal under uniform sampling (`signal/uniform_share`, with a 95% interval). Here every hard pool
of `curro bench` is trained on by uniform sampling and by methods with an estimate, one seed each, for 3,200
rollouts. After each quarter of the budget the estimate stands beside the share that the uniform run has found
until then. Two things are compared at once: whether the estimate is right for the policy that it was made
with, and how far that policy has come from the one that uniform sampling has trained.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import RESULTS, write_page
from benchmarks.papers.variants import Results, Variant

from curro.bench.tasks import TASKS
from curro.runs.folder import RunFolder
from curro.runs.reader import LEARNABLE, read_history
from curro.training.prepared import Prepared

UNIFORM = "uniform"
METHODS = ("prioritized-replay", "pspo:epsilon=0.1", "frontier:exploration=0.25")
POOLS = [name for name in TASKS if name.endswith("/hard")]
ROLLOUTS, QUARTERS = 3_200, 4
ESTIMATE = ("signal/uniform_share", "signal/uniform_share_low", "signal/uniform_share_high")


def variant(pool: str, method: str) -> Variant:
    """A method on a pool."""
    return Variant(method, name=f"{pool} {method}")


def shares(_: Prepared, folder: RunFolder) -> dict[str, list[list[float | None]]]:
    """After each quarter of a run: the share of its groups with a signal so far, and the estimate's three."""
    lines = [line for line in folder.metrics() if line["step"] > 0]
    has_signal = read_history(folder).groups.state == LEARNABLE
    rows: list[list[float | None]] = []
    for quarter in range(1, QUARTERS + 1):
        line = lines[quarter * len(lines) // QUARTERS - 1]
        groups = quarter * len(has_signal) // QUARTERS
        values = [has_signal[:groups].mean(), *(line[name] for name in ESTIMATE)]
        rows.append([None if np.isnan(value) else round(float(value), 4) for value in values])
    return {"quarters": rows}


def run(results: Results) -> None:
    """Train what has no row yet."""
    for pool in POOLS:
        common = {
            name: value for name, value in asdict(TASKS[pool].settings()).items() if name != "curriculum"
        }
        common |= {"rollouts": ROLLOUTS, "eval_every": 10**6, "eval_prompts": 8}
        results.run([variant(pool, method) for method in (UNIFORM, *METHODS)], 1, common, more=shares)


def table(found: dict[str, list[list[Any]]], quarter: int) -> tuple[list[str], int, int]:
    """The table's rows after a quarter, how many intervals hold the uniform run's share, and of how many.

    The uniform run's share has an error of its own: of n groups it is binomial. The interval holds it where
    the two intervals at 95% meet.
    """
    rows, inside, estimates = [], 0, 0
    for pool in POOLS:
        if variant(pool, UNIFORM).key not in found:
            continue
        truth = found[variant(pool, UNIFORM).key][quarter][0]
        groups = ROLLOUTS // TASKS[pool].rollouts_per_prompt * (quarter + 1) / QUARTERS
        error = 2 * np.sqrt(truth * (1 - truth) / groups)
        cells = [f"{truth:.2f} ± {error:.2f}"]
        for method in METHODS:
            own, estimate, low, high = found.get(variant(pool, method).key, [[None] * 4] * QUARTERS)[quarter]
            if estimate is None:
                cells.append("too few groups" if own is not None else "")
                continue
            meets = low <= truth + error and truth - error <= high
            inside, estimates = inside + meets, estimates + 1
            cells.append(
                f"{own:.2f}, {estimate:.2f} ({low:.2f} to {high:.2f}){'' if meets else ' **outside**'}"
            )
        rows.append(f"| {pool} | {' | '.join(cells)} |")
    return rows, inside, estimates


def report(results: Results) -> str:
    """The page: a table after each quarter."""
    found = {row["variant"]: row["quarters"] for row in results.rows()}
    parts = [
        "The share of groups with a signal. Uniform sampling: what a run of it has found. The methods: what "
        "they found themselves, then their estimate of uniform sampling and its 95% interval. An estimate "
        "begins at 32 groups whose chance of being drawn is known. *Outside*: the interval does not meet "
        "that of the uniform run (two standard errors).\n"
    ]
    for quarter in range(QUARTERS):
        rows, inside, estimates = table(found, quarter)
        parts.append(
            f"## After {(quarter + 1) * ROLLOUTS // QUARTERS:,} rollouts: {inside} of {estimates} inside\n\n"
            f"| pool | uniform sampling | {' | '.join(METHODS)} |\n|---|{'--:|' * (1 + len(METHODS))}\n"
            + "\n".join(rows)
            + "\n"
        )
    return "\n".join(parts)


def main(
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
) -> None:
    results = Results(RESULTS / "uniform_estimate.jsonl", Path("runs/uniform-estimate"))
    if not only_report:
        run(results)
    text = report(results)
    typer.echo(text)
    write_page(
        "uniform_estimate", "Uniform sampling, estimated and trained",
        "python -m benchmarks.learning.uniform_estimate", text,
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(main)

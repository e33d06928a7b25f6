"""Allocations at equal tokens: how many tokens a rollout has with each, and the accuracy that they buy.

    python benchmarks/allocation_tokens.py               # trains what has no row yet; half an hour
    python benchmarks/allocation_tokens.py --report      # trains nothing, writes the page

`curro bench` compares after equally many rollouts. This command trains each method once on each hard pool and
counts tokens; a row is added to benchmarks/results/allocation-tokens.jsonl as a run ends. From the
benchmark's curves (results.parquet) it then reads the mean pass@1 after as many tokens as uniform sampling
has spent in the end. A method with shorter completions has not spent that much when its rollouts end, and
counts with what it has then.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow.parquet as pq
import typer
from pages import RESULTS, write_page
from variants import Results, Variant

from curro.bench.plan import BASELINE, METHODS
from curro.bench.tasks import TASKS
from curro.report.run_reader import read_history
from curro.storage.run_folder import RunFolder
from curro.training.run import Prepared

COMPARED = [
    name
    for selection in ("uniform", "frontier")
    for name in (selection, *(f"{selection}, {rule}" for rule in ("knapsack", "hit", "screen", "until")))
]
POOLS = [name for name in TASKS if name.endswith("/hard")]


def count(_: Prepared, folder: RunFolder) -> dict[str, float]:
    """Tokens and rollouts of a run, rejected ones counted."""
    groups = read_history(folder).groups
    return {"tokens": float(groups.tokens.sum()), "rollouts": float(groups.rollouts.sum())}


def run(results: Results) -> None:
    for pool in POOLS:
        task = TASKS[pool]
        common = {name: value for name, value in asdict(task.settings()).items() if name != "curriculum"}
        common |= {"eval_every": task.rollouts // task.step, "eval_prompts": 8}
        variants = [Variant(METHODS[name].curriculum, name=f"{pool} {name}") for name in COMPARED]
        results.run(variants, 1, common, more=count)


def curves() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The benchmark's runs by pool and method."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in pq.read_table(RESULTS / "results.parquet").to_pylist():
        if row["rate"] == 1:
            found.setdefault((row["task"], row["method"]), []).append(row)
    return found


def at(runs: list[dict[str, Any]], rollouts: float) -> float:
    """Mean pass@1 of these runs after so many rollouts."""
    return float(np.mean([np.interp(rollouts, one["eval_rollouts"], one["pass_1"]) for one in runs]))


def page(results: Results) -> str:
    length = {row["variant"]: row["tokens"] / row["rollouts"] for row in results.rows()}
    runs = curves()
    lines = [
        "Tokens of a rollout, as multiples of uniform sampling's. Mean pass@1 over the pools after as many"
        " rollouts as uniform sampling has spent in the end, and after as many tokens.",
        "",
        f"| method | {' | '.join(POOLS)} | equal rollouts | equal tokens |",
        f"|---|{'--:|' * (len(POOLS) + 2)}",
    ]
    for name in COMPARED:
        if not all(f"{pool} {name}" in length for pool in POOLS):
            continue
        ratios = [length[f"{pool} {name}"] / length[f"{pool} {BASELINE}"] for pool in POOLS]
        budgets = [TASKS[pool].rollouts for pool in POOLS]
        same_rollouts = [at(runs[pool, name], budget) for pool, budget in zip(POOLS, budgets, strict=True)]
        same_tokens = [
            at(runs[pool, name], budget / ratio)
            for pool, budget, ratio in zip(POOLS, budgets, ratios, strict=True)
        ]
        cells = [
            *(f"{ratio:.3f}" for ratio in ratios),
            *(f"{np.mean(x):.3f}" for x in (same_rollouts, same_tokens)),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(
    report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
) -> None:
    results = Results(RESULTS / "allocation-tokens.jsonl", Path("runs/allocation-tokens"))
    if not report:
        run(results)
    text = page(results)
    typer.echo(text)
    write_page(
        "allocation-tokens", "Allocations at equal tokens", "python benchmarks/allocation_tokens.py", text
    )


if __name__ == "__main__":
    typer.run(main)

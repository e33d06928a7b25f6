"""Methods at equal tokens: how long their rollouts are, and the accuracy that the same tokens buy.

    python benchmarks/tokens.py               # trains what has no row yet; a quarter of an hour
    python benchmarks/tokens.py --report      # trains nothing, writes the page

`curro bench` compares after equally many rollouts. This command trains uniform and frontier, alone and with
every allocation, once on each hard pool and counts tokens as they come; a row is added to
benchmarks/results/tokens.jsonl as a run ends. With what a method's rollouts cost at each point of its budget,
the benchmark's curves (results.parquet, five seeds) are read again with tokens in place of rollouts.
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
from curro.bench.statistics import Interval, bootstrap, iqm, rollouts_to_level
from curro.bench.tasks import TASKS
from curro.report.run_reader import read_history
from curro.storage.run_folder import RunFolder
from curro.training.run import Prepared

COMPARED = [
    name
    for selection in ("uniform", "frontier")
    for name in (selection, *(f"{selection}, {rule}" for rule in ("knapsack", "hit", "screen", "until")))
]
POINTS = 101
Spent = dict[str, list[float]]
"""The rollouts and the tokens that had been spent at the points of a run."""
POOLS = [name for name in TASKS if name.endswith("/hard")]


def count(_: Prepared, folder: RunFolder) -> dict[str, list[float]]:
    """Rollouts and tokens that had been spent at some points of a run, rejected ones counted."""
    groups = read_history(folder).groups
    at = np.linspace(0, len(groups.tokens) - 1, POINTS).astype(int)
    return {
        "rollouts": groups.rollouts.cumsum()[at].tolist(),
        "tokens": groups.tokens.cumsum()[at].tolist(),
    }


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


def by_tokens(runs: list[dict[str, Any]], spent: Spent, grid_E: np.ndarray) -> np.ndarray:
    """The pass@1 of each seed after so many tokens (E,); behind its end, what it ended with. (S, E)."""
    rollouts_E = np.interp(grid_E, [0, *spent["tokens"]], [0, *spent["rollouts"]])
    return np.array([np.interp(rollouts_E, one["eval_rollouts"], one["pass_1"]) for one in runs])


def share(ours: list[np.ndarray], theirs: list[np.ndarray], grid_E: np.ndarray) -> Interval:
    """Of the tokens after which they have their final level, those that we need."""
    return bootstrap(lambda a, b: rollouts_to_level(grid_E, a[0], b[0]), ours, theirs)


def shown(found: Interval) -> str:
    one = [f"{x:.2f}" if np.isfinite(x) else "not reached" for x in (found.value, found.low, found.high)]
    return one[0] if one[0] == "not reached" else f"{one[0]} ({one[1]} to {one[2]})"


def page(results: Results) -> str:
    spent: dict[str, Spent] = {row["variant"]: row for row in results.rows()}
    runs = curves()
    length = {name: one["tokens"][-1] / one["rollouts"][-1] for name, one in spent.items()}
    lengths, shares, ends = [], [], []
    for name in COMPARED:
        if not all(f"{pool} {name}" in spent for pool in POOLS):
            continue
        ratios, needed, scores = [], [], []
        for pool in POOLS:
            ours, theirs = f"{pool} {name}", f"{pool} {BASELINE}"
            grid_E = np.linspace(0, spent[theirs]["tokens"][-1], POINTS)
            mine = by_tokens(runs[pool, name], spent[ours], grid_E)
            base = by_tokens(runs[pool, BASELINE], spent[theirs], grid_E)
            ratios.append(f"{length[ours] / length[theirs]:.2f}")
            needed.append(shown(share([mine], [base], grid_E)))
            scores.append(mine[:, -1])
        lengths.append(f"| {name} | {' | '.join(ratios)} |")
        shares.append(f"| {name} | {' | '.join(needed)} |")
        ends.append(f"| {name} | {iqm(scores):.3f} |")
    head = f"| method | {' | '.join(POOLS)} |\n|---|{'--:|' * len(POOLS)}"
    return "\n".join(
        [
            "## Tokens of a rollout, as multiples of uniform sampling's\n", head, *lengths,
            "\n## Tokens to uniform sampling's final level, as shares of uniform sampling's\n", head, *shares,
            "\n## pass@1 after as many tokens as uniform sampling has spent in the end\n",
            "A method whose rollouts end before that counts with what it has then.\n",
            "| method | all hard pools |\n|---|--:|", *ends,
        ]
    )  # fmt: skip


def main(
    report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
) -> None:
    results = Results(RESULTS / "tokens.jsonl", Path("runs/tokens"))
    if not report:
        run(results)
    text = page(results)
    typer.echo(text)
    write_page("tokens", "Methods at equal tokens", "python benchmarks/tokens.py", text)


if __name__ == "__main__":
    typer.run(main)

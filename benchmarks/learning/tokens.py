"""Methods at equal tokens: how long their rollouts are, and the accuracy that the same tokens buy.

    python -m benchmarks.learning.tokens               # trains what has no row yet; a quarter of an hour
    python -m benchmarks.learning.tokens --report      # trains nothing, writes the page

`benchmarks.bench` compares after equally many rollouts. This command trains uniform and frontier once on each
hard pool, alone and with every allocation, and at their own best settings where the search has found them,
and counts tokens as they come; a row is added to benchmarks/results/tokens.jsonl as a run ends. With what a
method's rollouts cost at each point of its budget, the benchmark's curves (five seeds, results.parquet and
search.parquet) are read again with tokens in place of rollouts.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow.parquet as pq
import typer
from benchmarks.bench.plan import BASELINE, METHODS, plan
from benchmarks.bench.results import Results as Searched
from benchmarks.bench.search import searched_methods, searches
from benchmarks.bench.statistics import Estimate, bootstrap, geometric_mean, iqm, rollouts_to_level
from benchmarks.bench.tasks import TASKS
from benchmarks.common import RESULTS, write_page
from benchmarks.papers.variants import Results, Variant

from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.training.plan import Plan

COMPARED = [
    name
    for selection in ("uniform", "frontier")
    for name in (selection, *(f"{selection}, {rule}" for rule in ("knapsack",)))
]
TUNED, SEEDS = ("uniform", "frontier"), 5
OWN = {"P": "prompts_per_step", "G": "rollouts_per_prompt", "rate": "learning_rate"}
"""The settings that a method has of its own, by the letter that names them in a row."""
POINTS = 101
Spent = dict[str, list[float]]
"""The rollouts and the tokens that had been spent at the points of a run."""
POOLS = [name for name in TASKS if name.endswith("/hard")]


def count(_: Plan, folder: RunFolder) -> dict[str, list[float]]:
    """Rollouts and tokens that had been spent at some points of a run, rejected ones counted."""
    groups = read_history(folder).groups
    at = np.linspace(0, len(groups.tokens) - 1, POINTS).astype(int)
    return {"rollouts": groups.rollouts.cumsum()[at].tolist(), "tokens": groups.tokens.cumsum()[at].tolist()}


@dataclass(frozen=True)
class Measured:
    """A method on a pool: the run that counts its tokens, and the benchmark's runs."""

    variant: Variant
    runs: list[dict[str, Any]]


Table = dict[str, dict[str, Measured]]
"""By method and pool."""


def at_the_tasks_settings() -> Table:
    table: Table = {name: {pool: Measured(_variant(pool, name), []) for pool in POOLS} for name in COMPARED}
    for row in pq.read_table(RESULTS / "results.parquet").to_pylist():
        if row["rate"] == 1 and row["task"] in POOLS and row["method"] in COMPARED:
            table[row["method"]][row["task"]].runs.append(row)
    return table


def at_their_own_settings() -> Table:
    results = Searched.open(RESULTS / "search.parquet")
    cells = plan(POOLS, list(TUNED), seeds=1)
    table: Table = {name: {} for name in TUNED}
    for pool, methods in searched_methods(results, searches(cells, SEEDS)).items():
        for name, method in methods.items():
            own = {
                "prompts_per_step": method.setting.prompts,
                "rollouts_per_prompt": method.setting.rollouts,
                "learning_rate": TASKS[pool].learning_rate * method.rate,
            }
            table[name][pool] = Measured(_variant(pool, name, own), method.runs)
    return table


def _variant(pool: str, method: str, settings: dict[str, Any] | None = None) -> Variant:
    own = "".join(f" {letter}={settings[name]:g}" for letter, name in OWN.items()) if settings else ""
    return Variant(METHODS[method].curriculum, settings or {}, name=f"{pool} {method}{own}")


def run(results: Results, tables: list[Table]) -> None:
    for pool in POOLS:
        task = TASKS[pool]
        common = {name: value for name, value in asdict(task.settings()).items() if name != "curriculum"}
        common |= {"eval_every": 10**6, "eval_prompts": 8}
        variants = [pools[pool].variant for table in tables for pools in table.values() if pool in pools]
        results.run(variants, 1, common, more=count)


def by_tokens(measured: Measured, spent: Spent, grid_E: np.ndarray) -> np.ndarray:
    """The pass@1 of each seed after so many tokens (E,); behind its end, what it ended with. (S, E)."""
    rollouts_E = np.interp(grid_E, [0, *spent["tokens"]], [0, *spent["rollouts"]])
    return np.array([np.interp(rollouts_E, run["eval_rollouts"], run["pass_1"]) for run in measured.runs])


def shares(*pairs_SE: Any) -> np.ndarray:
    """Share of uniform sampling's tokens to its final level that a method needs: the mean over pools."""
    grid_E = np.linspace(0, 1, POINTS)
    return geometric_mean([rollouts_to_level(grid_E, *pair) for pair in zip(*pairs_SE, strict=True)])


def shown(estimate: Estimate) -> str:
    numbers = [
        f"{x:.2f}" if np.isfinite(x) else "not reached" for x in (estimate.value, estimate.low, estimate.high)
    ]
    return numbers[0] if numbers[0] == "not reached" else f"{numbers[0]} ({numbers[1]} to {numbers[2]})"


def tables_of(table: Table, spent: dict[str, Spent]) -> str:
    """Lengths, tokens to the level, and the accuracy in the end; of pools in which all methods have run."""
    pools = [
        pool for pool in POOLS if all(pool in of and of[pool].variant.key in spent for of in table.values())
    ]
    if not pools:
        return "No pool has been run yet."
    lengths, needed, ends = [], [], []
    base: list[np.ndarray] = []
    for name, of in table.items():
        ratios, curves = [], []
        for pool in pools:
            ours, theirs = (spent[pools_of[pool].variant.key] for pools_of in (of, table[BASELINE]))
            curves.append(by_tokens(of[pool], ours, np.linspace(0, theirs["tokens"][-1], POINTS)))
            length, usual = (totals["tokens"][-1] / totals["rollouts"][-1] for totals in (ours, theirs))
            ratios.append(f"{length / usual:.2f}")
        base = base or curves
        each = [bootstrap(shares, [mine], [other]) for mine, other in zip(curves, base, strict=True)]
        both = [*each, bootstrap(shares, curves, base)]
        lengths.append(f"| {name} | {' | '.join(ratios)} |")
        needed.append(f"| {name} | {' | '.join(shown(estimate) for estimate in both)} |")
        ends.append(f"| {name} | {iqm([curve[:, -1] for curve in curves]):.3f} |")
    head = f"| method | {' | '.join(pools)} |"
    rule = f"|---|{'--:|' * len(pools)}"
    return "\n".join(
        [
            "Tokens of a rollout, as multiples of uniform sampling's:\n", head, rule, *lengths,
            "\nTokens to uniform sampling's final level, as shares of uniform sampling's:\n",
            f"{head} together |", f"{rule}--:|", *needed,
            "\npass@1 after as many tokens as uniform sampling has spent in the end; a method whose rollouts"
            " end before that counts with what it has then:\n",
            "| method | these pools |\n|---|--:|", *ends,
        ]
    )  # fmt: skip


def main(
    report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
) -> None:
    results = Results(RESULTS / "tokens.jsonl", Path("runs/tokens"))
    usual, own = at_the_tasks_settings(), at_their_own_settings()
    if not report:
        run(results, [usual, own])
    spent: dict[str, Spent] = {row["variant"]: row for row in results.rows()}
    text = f"## At the task's settings\n\n{tables_of(usual, spent)}\n\n"
    text += f"## Each method at its own best settings\n\n{tables_of(own, spent)}\n"
    typer.echo(text)
    write_page("tokens", "Methods at equal tokens", "python -m benchmarks.learning.tokens", text)


if __name__ == "__main__":
    typer.run(main)

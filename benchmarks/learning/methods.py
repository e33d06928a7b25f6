"""The benchmark of all methods; its tables go into benchmarks/results, a short one into pages/learning.md.

    python -m benchmarks.learning.methods --tune       # each method at its own best settings: some nights
    python -m benchmarks.learning.methods              # all methods at 4 prompts a step: one night
    python -m benchmarks.learning.methods --summary    # the tables of the results there are, without a run

It is `benchmarks.bench` with its results in benchmarks/results, and goes on from the committed ones. The
summary is in methods.md there, all tables are in tables.md, those of the search in search.md.
`python -m benchmarks.learning.pictures` draws the same results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.bench.plan import BASELINE, plan
from benchmarks.bench.results import Results
from benchmarks.bench.search import Search, scores_of, searched_methods, searches
from benchmarks.bench.tables import chosen_by, searched_sheets, sheets
from benchmarks.common import PAGES, RESULTS, write_page, write_rows

from curro.rollout.evaluation_results import Sheet

COMMAND = "python -m benchmarks.learning.methods --summary"
HARD, EASY = "All hard pools", "All easy pools"


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    return Sheet("", tuple(columns), tuple(map(tuple, rows))).markdown()


def cells(found: list[Sheet], title: str) -> dict[str, dict[str, str]]:
    """By method, the cells by their column, of the first sheet whose title begins so; none without one."""
    sheet = next((one for one in found if one.title.startswith(title)), None)
    if sheet is None:
        return {}
    return {row[0]: dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows}


def summary(found: list[Sheet], results: Results) -> str:
    """For methods.md: every method that ran on hard and easy pools, and what it did in each hard one."""
    hard, easy = cells(found, HARD), cells(found, EASY)
    columns = ["method", "hard: pass@1", "better than uniform", "rollouts to uniform's level", "easy: pass@1"]
    rows = [
        [
            f"{method}{where(row, hard)}",
            *(row[column] for column in ("pass@1", *columns[2:4])),
            easy[method]["pass@1"],
        ]
        for method, row in hard.items()
        if method in easy
    ]
    devices = ", ".join(sorted({row["device"] for row in results.rows.values()}))
    versions = ", ".join(sorted({row["version"] for row in results.rows.values()}))
    return (
        f"{len(results.rows)} runs of curro {versions} on {devices}.\n\n"
        f"{markdown(columns, rows)}\n"
        "In each hard pool, pass@1 and the share of groups with signal:\n\n"
        f"{by_pool(found)}"
    )


def by_pool(found: list[Sheet]) -> str:
    """A column for each hard pool: pass@1 without its interval, and the share of groups with signal."""
    pools = [one.title for one in found if one.title.endswith("/hard")]
    scores = {pool: cells(found, pool) for pool in pools}
    rows = [
        [method, *(two_numbers(scores[pool].get(method)) for pool in pools)]
        for method in cells(found, HARD)
        if method in cells(found, EASY)
    ]
    return markdown(["method", *(pool.removesuffix("/hard") for pool in pools)], rows)


def two_numbers(row: dict[str, str] | None) -> str:
    return "-" if row is None else f"{row['pass@1'].split()[0].removeprefix('0')}, {row['signal']}"


def short(found: list[Sheet]) -> str:
    """For benchmarks/pages/learning.md: pass@1 of every method that ran on hard and easy pools."""
    hard, easy = cells(found, HARD), cells(found, EASY)
    rows = [
        [f"{method}{where(row, hard)}", row["pass@1"], easy[method]["pass@1"]]
        for method, row in hard.items()
        if method in easy
    ]
    return markdown(["mean of five pools, 5 seeds", "hard: pass@1", "easy: pass@1"], rows)


def where(row: dict[str, str], rows: dict[str, dict[str, str]]) -> str:
    """Words for a method that did not run on all pools: one that asks needs a model that judges."""
    return "" if row["tasks"] == rows[BASELINE]["tasks"] else " (`chains` alone)"


def tables(found: list[Sheet]) -> str:
    """Everything, for tables.md."""
    rates = "".join(f"* {task}: {words}\n" for task, words in chosen_by())
    parts = [f"## {sheet.title}\n\n{sheet.markdown().rstrip()}" for sheet in found]
    machines = "The runs were made on machines of different speed, so that seconds compare methods roughly."
    return "\n\n".join([machines, *parts, f"## Learning rates, tried with uniform sampling\n\n{rates}"])


def of_the_search(results: Results, seeds: int) -> str:
    """For search.md: all tables of the search, and what it has cost so far."""
    wanted = searches(plan(None, None, seeds=1), seeds)
    found = searched_methods(results, wanted)
    minutes = sum(row["eval_seconds"][-1] for row in results.rows.values()) / 60
    parts = [f"{len(results.rows)} runs so far, {minutes:.0f} minutes of one core.\n"]
    parts += [f"## {sheet.title}\n\n{sheet.markdown()}" for sheet in searched_sheets(found)]
    return "\n".join([*parts, halved_groups(results, wanted), *under_way(results, wanted)])


def halved_groups(results: Results, wanted: list[Search]) -> str:
    """Gain of twice as many prompts in groups of half the size, at equal rollouts a step and rate."""
    gains: dict[tuple[str, int], list[float]] = {}
    for search in wanted:
        tried = search.tried_settings(scores_of(results))
        for setting, score in tried.items():
            half = setting._replace(prompts=2 * setting.prompts, rollouts=setting.rollouts // 2)
            if half in tried:
                gains.setdefault((search.cell.method.name, setting.rollouts), []).append(tried[half] - score)
    rows = [
        [
            method,
            f"{g} to {g // 2}",
            f"{sum(gain > 0 for gain in found)} of {len(found)}",
            f"{np.mean(found):+.3f}",
        ]
        for (method, g), found in sorted(gains.items())
    ]
    title = "## Twice as many prompts with groups of half the size, same rollouts a step and rate"
    return f"{title}\n\n{markdown(['method', 'G', 'better', 'mean difference of scores'], rows)}\n"


def under_way(results: Results, wanted: list[Search]) -> list[str]:
    """A table of the searches that have chosen nothing yet: the score of every run."""
    scores, rows = scores_of(results), []
    for search in wanted:
        tried = search.tried(scores)
        if tried and search.chosen(scores) is None:
            told = [
                f"P = {cell.prompts_per_step}, G = {cell.rollouts_per_prompt}, x{cell.rate:g}, "
                f"seed {cell.seed}: {scores[cell.identity]:.3f}, "
                f"{np.mean(results.rows[cell.identity]['signal']):.2f}"
                for cell in tried
            ]
            rows.append([search.cell.task.name, search.cell.method.name, "; ".join(told)])
    head = ["task", "method", "prompts a step, rollouts per prompt, rate: score, share of groups with signal"]
    return [f"## Searches under way\n\n{markdown(head, rows)}"] if rows else []


def main(
    seeds: Annotated[int, typer.Option(help="Runs of each method on each task that count.")] = 5,
    tune: Annotated[bool, typer.Option("--tune", help="Search settings for each method.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Runs side by side. [default: one a core]")] = None,
    summarize: Annotated[bool, typer.Option("--summary", help="Run nothing.")] = False,
) -> None:
    if not summarize:
        command = [sys.executable, "-m", "benchmarks.bench", f"--out={RESULTS}", f"--seeds={seeds}"]
        command += ["--tune"] * tune + ([f"--jobs={jobs}"] if jobs else [])
        if subprocess.run(command).returncode:
            raise typer.Exit(1)
    results = Results.open(RESULTS / "results.parquet")
    found = sheets(results)
    write_page("tables", "All tables of the benchmark", COMMAND, tables(found))
    write_page("methods", "All methods", COMMAND, summary(found, results))
    write_rows(short(found), PAGES / "learning.md")
    search = of_the_search(Results.open(RESULTS / "search.parquet"), seeds)
    write_page("search", "Each method at its own best settings", COMMAND, search)


if __name__ == "__main__":
    typer.run(main)

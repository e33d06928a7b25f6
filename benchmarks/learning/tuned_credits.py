"""Does choosing prompts still help where the credit already weighs rare successes? Trained, each pair tuned.

    python -m benchmarks.learning.tuned_credits [--seeds 3] [--credits ADVANTAGE ...]  # one core, goes on
    python -m benchmarks.learning.tuned_credits --summary                              # the page alone

Uniform sampling and `frontier` with each advantage on the hard pools of `benchmarks.bench`, with its models
and budgets and groups of 8 rollouts. With `group` the rows are those of the search in results/search.parquet,
whose two seeds chose P prompts a step and the learning rate. With another advantage the search starts from
the setting that was best with `group`, runs its neighbours with one seed (P, then the rate, halved or
doubled) and goes on from the best so far, until no neighbour is better. Other seeds are reported.

A run's score is its held-out pass@1 (250 problems, 4 samples each), the mean over the second half of the
budget. A gain is that of `frontier` over uniform sampling with the same advantage and seed, and its interval
resamples the seeds within each pool.

Gives up: one seed chooses, groups have 8 rollouts, and three seeds leave wide intervals.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.bench.plan import plan
from benchmarks.bench.results import Results
from benchmarks.bench.search import CHOOSING, FACTORS, PROMPTS, GridPoint, scores_of, searches
from benchmarks.bench.statistics import POINTS, curves
from benchmarks.bench.tasks import TASKS
from benchmarks.common import RESULTS, complete_rows, mean_with_interval, train_run, write_page

from curro.training.plan import plan as plan_run

CREDITS = ("maxrl", "shrinkage", "history")
SELECTIONS = ("uniform", "frontier")
POOLS = tuple(name for name in TASKS if name.endswith("/hard"))
TUNING, FIRST = CHOOSING[0], len(CHOOSING)
"""The seed that chooses, and the first seed that is reported."""
EVALUATIONS = 4
ROWS, COMMAND = RESULTS / "tuned_credits.jsonl", "python -m benchmarks.learning.tuned_credits --summary"

Row = dict[str, Any]


def train_once(task: str, selection: str, credit: str, prompts: int, factor: float, seed: int) -> Row:
    """A run, and its row."""
    own = TASKS[task]
    steps = own.rollouts // (prompts * own.rollouts_per_prompt)
    settings = replace(
        own.settings(), curriculum=f"{selection} advantage={credit}", prompts_per_step=prompts, seed=seed,
        learning_rate=own.learning_rate * factor * math.sqrt(prompts / own.prompts_per_step),
        eval_prompts=250, eval_samples=4, eval_every=steps // EVALUATIONS, save_every=100_000,
    )  # fmt: skip
    lines, groups = train_run(plan_run(settings))
    evaluated = [line for line in lines if "eval/pass@1" in line]
    curve = {
        "budget": own.rollouts,
        "eval_rollouts": [line["rollouts"] for line in evaluated],
        "pass_1": [line["eval/pass@1"] for line in evaluated],
    }
    return {
        "task": task, "selection": selection, "credit": credit, "prompts": prompts, "factor": factor,
        "seed": seed, "score": second_half(curve), "end": curve["pass_1"][-1],
        "signal": float(np.mean([group["variance"] > 1e-9 for group in groups])),
        "seconds": lines[-1]["cpu_seconds"],
    }  # fmt: skip


def second_half(curve: Mapping[str, Any]) -> float:
    """The mean pass@1 over the second half of the budget, as the benchmark's search scores a run."""
    return float(curves([curve])[0, POINTS // 2 :].mean())


def with_group() -> list[Row]:
    """The reported runs of the search with `group`, at the best setting of those with 8 rollouts a prompt."""
    results = Results.open(RESULTS / "search.parquet")
    scores, rows = scores_of(results), []
    for search in searches(plan(POOLS, SELECTIONS, seeds=1), seeds=5):
        group = search.cell.task.rollouts_per_prompt
        tried = {
            setting: score
            for setting, score in search.tried_settings(scores).items()
            if setting.rollouts == group
        }
        best = max(tried, key=tried.__getitem__)
        for cell in search.reported(best):
            found = results.rows[cell.identity]
            rows.append({
                "task": cell.task.name, "selection": cell.method.name, "credit": "group", "seed": cell.seed,
                "prompts": best.prompts, "factor": best.factor, "score": scores[cell.identity],
                "end": found["pass_1"][-1], "signal": float(np.mean(found["signal"])),
            })  # fmt: skip
    return rows


def missing(rows: list[Row], base: GridPoint, pair: dict[str, str], seeds: int) -> list[dict[str, Any]]:
    """The runs that a pair of selection and advantage needs next on its task, or its reported ones.

    Args:
        base: the best setting of the same selection with `group`.
    """
    tried = {
        GridPoint(row["prompts"], base.rollouts, row["factor"]): row["score"]
        for row in rows
        if row["seed"] == TUNING and pair.items() <= row.items()
    }
    wanted, best = [base], base
    if base in tried:
        best = max(tried, key=tried.__getitem__)
        p, f = PROMPTS.index(best.prompts), FACTORS.index(best.factor)
        wanted = [
            *(best._replace(prompts=other) for other in PROMPTS[max(p - 1, 0) : p + 2]),
            *(best._replace(factor=other) for other in FACTORS[max(f - 1, 0) : f + 2]),
        ]
        wanted = [setting for setting in wanted if setting not in tried]
    runs = [(setting, TUNING) for setting in wanted] or [(best, FIRST + i) for i in range(seeds)]
    return [
        {**pair, "prompts": setting.prompts, "factor": setting.factor, "seed": seed} for setting, seed in runs
    ]


def cases(rows: list[Row], base: list[Row], credits: Sequence[str], seeds: int) -> Iterator[dict[str, Any]]:
    """The next runs of every pair, until all have their reported seeds."""
    for credit, task, selection in itertools.product(credits, POOLS, SELECTIONS):
        pair = {"task": task, "selection": selection, "credit": credit}
        own = reported(base)[task, "group", selection][FIRST]
        start = GridPoint(own["prompts"], TASKS[task].rollouts_per_prompt, own["factor"])
        while (wanted := missing(rows, start, pair, seeds))[0]["seed"] == TUNING:
            yield from wanted
        yield from wanted


def reported(rows: list[Row]) -> dict[tuple[str, str, str], dict[int, Row]]:
    """By task, advantage and selection the rows that count, by their seeds."""
    found: dict[tuple[str, str, str], dict[int, Row]] = {}
    for row in rows:
        if row["seed"] >= FIRST:
            found.setdefault((row["task"], row["credit"], row["selection"]), {})[row["seed"]] = row
    return found


def gains(rows: list[Row], credit: str) -> dict[str, np.ndarray]:
    """By task, the gain of `frontier` over uniform sampling with each seed that both have, (S,)."""
    runs = reported(rows)
    by_task = {}
    for task in POOLS:
        ours, theirs = (runs.get((task, credit, name), {}) for name in ("frontier", "uniform"))
        seeds = sorted(ours.keys() & theirs.keys())
        if seeds:
            by_task[task] = np.array([ours[seed]["score"] - theirs[seed]["score"] for seed in seeds])
    return by_task


def table(rows: list[Row]) -> str:
    """The page: a table of the pools, one of the means over them, and the number of runs."""
    runs = reported(rows)
    lines = [
        "| pool | advantage | uniform: P, rate | pass@1 | groups with signal | frontier: P, rate | pass@1 | "
        "groups with signal | gain, mean and range over seeds | seeds |",
        f"|---|---|{'--:|' * 8}",
    ]
    for task, credit in itertools.product(POOLS, ("group", *CREDITS)):
        gain_S = gains(rows, credit).get(task)
        if gain_S is None:
            continue
        cells = [task.removesuffix("/hard"), f"`{credit}`"]
        for selection in SELECTIONS:
            own = list(runs[task, credit, selection].values())
            score, signal = (np.mean([row[name] for row in own]) for name in ("score", "signal"))
            cells += [f"{own[0]['prompts']}, x{own[0]['factor']:g}", f"{score:.3f}", f"{signal:.2f}"]
        spread = f"{gain_S.mean():+.3f} ({gain_S.min():+.3f} to {gain_S.max():+.3f})"
        lines.append(f"| {' | '.join([*cells, spread, str(len(gain_S))])} |")
    lines += [
        "",
        "| mean over the pools | uniform | frontier | gain of frontier | gain less that with `group`, "
        "same seeds | pools |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = gains(rows, "group")
    for credit in ("group", *CREDITS):
        own = gains(rows, credit)
        if not own:
            continue
        means = [
            np.mean([np.mean([row["score"] for row in runs[task, credit, name].values()]) for task in own])
            for name in SELECTIONS
        ]
        gain, less = mean_with_interval(list(own.values())), ""
        if credit != "group":
            less = mean_with_interval([own[task] - base[task][: len(own[task])] for task in own])
        lines.append(f"| `{credit}` | {means[0]:.3f} | {means[1]:.3f} | {gain} | {less} | {len(own)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--credits", nargs="*", default=CREDITS, choices=CREDITS, metavar="ADVANTAGE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    base, rows = with_group(), complete_rows(ROWS, (), train_once)
    for case in () if args.summary else cases(rows, base, args.credits, args.seeds):
        rows[:] = complete_rows(ROWS, (case,), train_once)
    write_page(
        "tuned_credits", "Choosing prompts under several credits, each tuned", COMMAND, table([*base, *rows])
    )


if __name__ == "__main__":
    main()

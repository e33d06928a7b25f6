"""Does choosing prompts still help where the credit already weighs rare successes? Trained, each pair tuned.

    python -m benchmarks.learning.tuned_credits [--seeds 3] [TASK ...]   # one core, goes on after a stop
    python -m benchmarks.learning.tuned_credits --summary                # the page alone

Uniform sampling and `frontier` with each advantage on the hard pools of `curro bench`, with its models and
budgets. Each pair searches its own settings on each pool, by one seed that is not among those reported:
P = 2, 4 and 8 prompts a step of 8 rollouts at the task's learning rate times sqrt(P / 4), then from the best
P half and twice that rate, and further while the best rate is at the end of those tried. A run's score is its
held-out pass@1 (200 problems, 4 samples each), the mean over the second half of the budget. A gain is that
of `frontier` over uniform sampling with the same advantage and seed, and its interval resamples the seeds
within each pool.

Gives up: one seed chooses, groups have 8 rollouts, and three seeds leave wide intervals.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.common import RESULTS, complete_rows, mean_with_interval, write_page

from curro.bench.tasks import TASKS
from curro.runs.folder import RunFolder
from curro.training.prepared import prepare
from curro.training.run import train

CREDITS = ("group", "maxrl", "shrinkage")
SELECTIONS = ("uniform", "frontier")
POOLS = tuple(name for name in TASKS if name.endswith("/hard"))
PROMPTS, FACTORS = (2, 4, 8), (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
TUNING = 100
"""The seed by which the settings are chosen."""
EVALUATIONS = 4
ROWS, COMMAND = RESULTS / "tuned_credits.jsonl", "python -m benchmarks.learning.tuned_credits --summary"


def train_once(
    task: str, selection: str, credit: str, prompts: int, factor: float, seed: int
) -> dict[str, Any]:
    """A run, and its row."""
    own = TASKS[task]
    steps = own.rollouts // (prompts * own.rollouts_per_prompt)
    settings = replace(
        own.settings(), curriculum=f"{selection} advantage={credit}", prompts_per_step=prompts, seed=seed,
        learning_rate=own.learning_rate * factor * math.sqrt(prompts / own.prompts_per_step),
        eval_prompts=200, eval_samples=4, eval_every=steps // EVALUATIONS, save_every=100_000,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", {"settings": settings.as_dict()})
        if not train(prepare(settings), run, page=False):
            raise SystemExit("stopped before the run was complete: its row is left out")
        lines, groups = run.metrics(), run.groups()
    scores = [line["eval/pass@1"] for line in lines if "eval/pass@1" in line]
    return {
        "task": task, "selection": selection, "credit": credit, "prompts": prompts, "factor": factor,
        "seed": seed, "before": scores[0], "score": float(np.mean(scores[EVALUATIONS // 2 :])),
        "end": scores[-1], "signal": float(np.mean([group["variance"] > 1e-9 for group in groups])),
        "seconds": lines[-1]["cpu_seconds"],
    }  # fmt: skip


def missing(rows: list[dict[str, Any]], pair: dict[str, str], seeds: int) -> list[dict[str, Any]]:
    """The runs that a pair of selection and advantage needs next on its task; none where it is complete."""
    tried = settings_tried(rows, pair)
    wanted = [(prompts, 1.0) for prompts in PROMPTS if (prompts, 1.0) not in tried]
    if not wanted:
        prompts, factor = best = max(tried, key=tried.__getitem__)
        place = FACTORS.index(factor)
        beside = [(prompts, other) for other in FACTORS[max(place - 1, 0) : place + 2]]
        wanted = [setting for setting in beside if setting not in tried]
        if not wanted:
            return [{**pair, "prompts": best[0], "factor": best[1], "seed": seed} for seed in range(seeds)]
    return [{**pair, "prompts": prompts, "factor": factor, "seed": TUNING} for prompts, factor in wanted]


def settings_tried(rows: list[dict[str, Any]], pair: dict[str, str]) -> dict[tuple[int, float], float]:
    """The scores of the search so far, by prompts a step and factor of the learning rate."""
    return {
        (row["prompts"], row["factor"]): row["score"]
        for row in rows
        if row["seed"] == TUNING and pair.items() <= row.items()
    }


def cases(
    rows: list[dict[str, Any]], tasks: Sequence[str], credits: Sequence[str], seeds: int
) -> Iterator[dict[str, Any]]:
    """The next runs of every pair, until all have their reported seeds."""
    for task, credit, selection in itertools.product(tasks, credits, SELECTIONS):
        pair = {"task": task, "selection": selection, "credit": credit}
        while missing(rows, pair, seeds)[0]["seed"] == TUNING:
            yield from missing(rows, pair, seeds)
        yield from missing(rows, pair, seeds)


def reported(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[int, dict[str, Any]]]:
    """By task, advantage and selection the rows that count, by their seeds."""
    found: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["seed"] < TUNING:
            found.setdefault((row["task"], row["credit"], row["selection"]), {})[row["seed"]] = row
    return found


def gains(rows: list[dict[str, Any]], credit: str) -> dict[str, np.ndarray]:
    """By task, the gain of `frontier` over uniform sampling with each seed that both have, (S,)."""
    runs = reported(rows)
    by_task = {}
    for task in POOLS:
        ours, theirs = (runs.get((task, credit, name), {}) for name in ("frontier", "uniform"))
        seeds = sorted(ours.keys() & theirs.keys())
        if seeds:
            by_task[task] = np.array([ours[seed]["score"] - theirs[seed]["score"] for seed in seeds])
    return by_task


def table(rows: list[dict[str, Any]]) -> str:
    """The page: a table of the pools, one of the means over them, and the number of runs."""
    runs = reported(rows)
    lines = [
        "| pool | advantage | uniform: P, rate | pass@1 | groups with signal | frontier: P, rate | pass@1 | "
        "groups with signal | gain, mean and range over seeds | seeds |",
        f"|---|---|{'--:|' * 8}",
    ]
    for task in POOLS:
        for credit in CREDITS:
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
        "| mean over the pools | uniform | frontier | gain of frontier | gain of `frontier` less that with "
        "`group` |",
        "|---|--:|--:|--:|--:|",
    ]
    for credit in CREDITS:
        own, base = gains(rows, credit), gains(rows, "group")
        if not own or own.keys() != base.keys():
            continue
        means = [
            np.mean([np.mean([row["score"] for row in runs[task, credit, name].values()]) for task in own])
            for name in SELECTIONS
        ]
        gain, less = mean_with_interval(list(own.values())), ""
        if credit != "group":
            less = mean_with_interval([own[task] - base[task][: len(own[task])] for task in own])
        lines.append(f"| `{credit}` | {means[0]:.3f} | {means[1]:.3f} | {gain} | {less} |")
    searched = sum(row["seed"] == TUNING for row in rows)
    return "\n".join([*lines, "", f"{len(rows)} runs, {searched} of them in the searches."])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=POOLS, metavar="TASK")
    parser.add_argument("--credits", nargs="*", default=CREDITS, choices=CREDITS, metavar="ADVANTAGE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    rows = complete_rows(ROWS, (), train_once)
    for case in () if args.summary else cases(rows, args.tasks, args.credits, args.seeds):
        rows[:] = complete_rows(ROWS, (case,), train_once)
    write_page("tuned_credits", "Choosing prompts under several credits, each tuned", COMMAND, table(rows))


if __name__ == "__main__":
    main()

"""A reward shaped by length: filters and rankings by the shaped sum, and by its outcome.

    python -m benchmarks.learning.shaped_filter [--seeds 5]   # trains what has no row yet
    python -m benchmarks.learning.shaped_filter --summary     # trains nothing, writes the page

verl-recipe#125 compares filters on GSM8K with a model of 1.5 billion parameters: .715 before, then .102
without a filter, .037 with one on the shaped sum, and .753 with one on the outcome. Here the lab's `chains`
are trained on the right answer plus half a point for brevity, 4 prompts of 8 rollouts a step. The filter is
the gate `signal`, with uniform sampling; its rejected groups are replaced, so that all arms get the same
rollouts, and the filtered ones make fewer updates. `frontier` has no gate, and ranks prompts by the sum or by
the outcome. The score is the held-out pass@1 of right answers.

Gives up: one small model, one shape and few seeds show a direction, no size.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.common import RESULTS, complete_rows, train_run, write_page

ARMS = {
    "no filter": "uniform",
    "filter on the sum": "uniform admission=signal signal=sum",
    "filter on the outcome": "uniform admission=signal",
    "`frontier`, ranked by the sum": "frontier signal=sum",
    "`frontier`, ranked by the outcome": "frontier",
}
REWARD = "lab+0.5*benchmarks.learning.shaped_filter:brevity"
ROLLOUTS, EVALUATIONS = 4_800, 5
ROWS, COMMAND = RESULTS / "shaped_filter.jsonl", "python -m benchmarks.learning.shaped_filter --summary"


def brevity(completion: str, row: Mapping[str, Any]) -> float:
    """1 for no text, 0 for 16 characters, the lab's limit, or more."""
    return max(1 - len(completion.strip()) / 16, 0.0)


def train_once(arm: str, seed: int) -> dict[str, Any]:
    """A run, and its row."""
    from curro.training.plan import plan
    from curro.training.settings import TrainSettings

    steps = ROLLOUTS // 32
    settings = TrainSettings(
        data="lab:chains", limit=1000, curriculum=ARMS[arm], reward=REWARD, reward_workers=0,
        rollouts=ROLLOUTS, prompts_per_step=4, rollouts_per_prompt=8, learning_rate=3e-4, seed=seed,
        eval_prompts=250, eval_samples=4, eval_every=steps // EVALUATIONS, save_every=100_000,
    )  # fmt: skip
    lines, groups = train_run(plan(settings))
    scores = [line["eval/pass@1"] for line in lines if "eval/pass@1" in line]
    return {
        "arm": arm, "seed": seed, "before": scores[0], "end": scores[-1], "best": max(scores),
        "updates": max(line["step"] for line in lines),
        "admitted": float(np.mean([group["admitted"] for group in groups])),
        "seconds": lines[-1]["cpu_seconds"],
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The page: of each arm the means over its seeds, and the range of the last score."""
    lines = [
        "| arm | before | at the end | lowest and highest seed | best of the evaluations | updates | groups "
        "admitted | seeds |",
        f"|---|{'--:|' * 7}",
    ]
    for arm in ARMS:
        runs = [row for row in rows if row["arm"] == arm]
        if runs:
            mean = {name: np.mean([row[name] for row in runs]) for name in runs[0] if name != "arm"}
            ends = [row["end"] for row in runs]
            lines.append(
                f"| {arm} | {mean['before']:.3f} | {mean['end']:.3f} | {min(ends):.3f}, {max(ends):.3f} | "
                f"{mean['best']:.3f} | {mean['updates']:.0f} | {mean['admitted']:.2f} | {len(runs)} |"
            )
    return "\n".join(lines)


def main() -> None:
    summary = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    summary.add_argument("--seeds", type=int, default=5)
    summary.add_argument("--summary", action="store_true")
    args = summary.parse_args()
    seeds = range(0 if args.summary else args.seeds)
    rows = complete_rows(ROWS, ({"arm": arm, "seed": seed} for seed in seeds for arm in ARMS), train_once)
    write_page("shaped_filter", "Filters and rankings under a shaped reward", COMMAND, table(rows))


if __name__ == "__main__":
    main()

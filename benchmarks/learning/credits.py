"""Does choosing prompts still help where the credit already weighs rare successes? In a simulation.

    OMP_NUM_THREADS=1 python -m benchmarks.learning.credits [--seeds 5] [--steps 60]   # goes on after a stop
    python -m benchmarks.learning.credits --summary                                    # the page alone

Uniform sampling and `frontier` with each advantage, on five hard pools of the policy of simulated_policy.py:
chains of up to 14 skills, most of which are never solved at first. Each pair has the best of three step
sizes, by one seed of its own that is not among the others. A seed's score is the mean held-out level over the
second half of its run; a gain is that of `frontier` over uniform sampling with the same advantage and seed.

Gives up: a table of skills under Adam is no language model. What it shows is how the two ways to weigh rare
successes, by choosing prompts and by crediting rollouts, add up.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from benchmarks.common import RESULTS, write_page
from benchmarks.learning.simulated_policy import EVERY, Settings, World

from curro import Curriculum

CREDITS = ("group", "group:divide_by_std=true", "maxrl", "smoothed", "shrinkage", "history")
SELECTIONS = ("uniform", "frontier")
POOLS = {
    "plain": Settings(1000, 8, 0, 0, 0.0, 0, 0.0),
    "2 skills never right": Settings(1000, 8, 0, 0, 0.0, 2, 0.0),
    "4 skills never right": Settings(1000, 8, 0, 0, 0.0, 4, 0.0),
    "40 hidden skills": Settings(1000, 8, 0, 40, 0.0, 0, 0.0),
    "learnt by heart": Settings(1000, 8, 0, 0, 10.0, 0, 0.0),
}
STEP_SIZES = (0.03, 0.06, 0.12)
TUNING = 100
"""The seed by which the step size is chosen."""
ROWS, COMMAND = RESULTS / "credits.jsonl", "python -m benchmarks.learning.credits --summary"


def score(pool: str, selection: str, credit: str, size: float, seed: int, steps: int) -> float:
    """The mean held-out level over the second half of a run."""
    settings = Settings(**{**vars(POOLS[pool]), "steps": steps, "adam": size})
    world = World(seed, settings)
    curriculum = Curriculum(selection, world.prompts, advantage=credit, seed=seed)
    levels = []
    for step in range(steps):
        draw = curriculum.select(settings.batch, step=step)
        world.practise(
            draw.prompts, lambda rewards, tickets=draw.tickets: _credit(curriculum, tickets, rewards)
        )
        if step >= steps // 2 and step % EVERY == 0:
            levels.append(world.level())
    return float(np.mean([*levels, world.level()]))


def _credit(curriculum: Curriculum, tickets: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    return curriculum.credit(curriculum.observe(tickets, rewards))


class Rows:
    """The scores that there are, and a file to which new ones are added."""

    def __init__(self) -> None:
        lines = ROWS.read_text().splitlines() if ROWS.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def score(self, **run: Any) -> float:
        """The score of a run, which is made if it is missing."""
        for row in self.rows:
            if all(row[name] == value for name, value in run.items()):
                return row["score"]
        row = {**run, "score": score(**run)}
        self.rows.append(row)
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return row["score"]


def table(rows: list[dict[str, Any]]) -> str:
    """The page: of each pool and advantage the mean scores, and the gain of `frontier` with its range."""
    lines = [
        "| pool | advantage | uniform | frontier | gain, mean and range over seeds | seeds |",
        "|---|---|--:|--:|--:|--:|",
    ]
    scores = {
        (row["pool"], row["credit"], row["selection"], row["seed"]): row["score"]
        for row in rows
        if row["seed"] < TUNING
    }
    gains: dict[str, list[float]] = {credit: [] for credit in CREDITS}
    for pool in POOLS:
        for credit in CREDITS:
            both = [
                (scores[pool, credit, "uniform", seed], scores[pool, credit, "frontier", seed])
                for seed in range(TUNING)
                if all((pool, credit, selection, seed) in scores for selection in SELECTIONS)
            ]
            if both:
                uniform, frontier = np.mean(both, axis=0)
                gain_S = [b - a for a, b in both]
                gains[credit].append(float(np.mean(gain_S)))
                spread = f"{np.mean(gain_S):+.3f} ({min(gain_S):+.3f} to {max(gain_S):+.3f})"
                lines.append(
                    f"| {pool} | `{credit}` | {uniform:.3f} | {frontier:.3f} | {spread} | {len(both)} |"
                )
    means = ", ".join(f"`{credit}` {np.mean(gain):+.3f}" for credit, gain in gains.items() if gain)
    return "\n".join([*lines, "", f"Mean gain of `frontier` over the pools: {means}."])


def main() -> None:
    summary = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    summary.add_argument("--seeds", type=int, default=5)
    summary.add_argument("--steps", type=int, default=60)
    summary.add_argument("--summary", action="store_true")
    args = summary.parse_args()
    rows = Rows()
    pairs = [(pool, credit, selection) for pool in POOLS for credit in CREDITS for selection in SELECTIONS]
    for seed in range(0 if args.summary else args.seeds):
        for pool, credit, selection in pairs:
            run = {"pool": pool, "selection": selection, "credit": credit, "steps": args.steps}
            tried = [rows.score(**run, size=size, seed=TUNING) for size in STEP_SIZES]
            rows.score(**run, size=STEP_SIZES[int(np.argmax(tried))], seed=seed)
        print(f"seed {seed} is done", flush=True)
    write_page("credits", "Choosing prompts under several credits", COMMAND, table(rows.rows))


if __name__ == "__main__":
    main()

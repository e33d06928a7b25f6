"""Levels of generated problems: curricula over levels beside uniform levels, fixed rules and a fixed pool.

    python -m benchmarks.learning.levels [--seeds 5] [--rollouts 12800] [FAMILY ...]   # one core, goes on
    python -m benchmarks.learning.levels --summary                                    # the page alone

FAMILY: of the lab, each with its own small model. Its levels are the sizes of its problems, from one that the
model solves mostly to one that is out of its reach. Every arm gets the same rollouts:

    uniform    every level equally often
    frontier   the levels with the largest predicted variance
    broad      `frontier` with 2 candidates for each place instead of 8, so that more levels get places
    half       `frontier`, half of whose places go to any level
    target     the level whose success rate is nearest 1/2, which moves with the rewards (AdaRFT's rule)
    climb      reasoning-gym's rule (arXiv 2505.24760): start at the first level; one up when the mean of the
               latest 20 groups is above .7, one down when it is below .1; written from the paper
    pool       uniform sampling of a fixed pool of 500 problems, equally many of each level

The score is the pass@1 on 300 held-out problems, equally many of each level, at the end of the run and as
the mean over its evaluations; the final model's is also given level by level. Rows go to
results/levels.jsonl; a row that is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from benchmarks.common import RESULTS, complete_rows, mean_with_interval, train_run, write_page

from curro.core.prompts import PromptTable
from curro.core.selection import Choice, Outcome, Reason, Selection
from curro.data import load_levels
from curro.lab import family as lab_family
from curro.rollout.engines.engine import SamplingSettings
from curro.rollout.sampling import beside_training, sampled_rewards
from curro.training.plan import Plan, plan
from curro.training.settings import TrainSettings

FAMILIES = ("chains", "chain_sum", "leg_counting", "spell_backward", "locks")
METHODS = {
    "uniform": "uniform",
    "frontier": "frontier",
    "broad": "frontier:candidates=2",
    "half": "frontier:exploration=0.5",
    "target": "target:difficulty,rate=0.1,width=0.1",
    "climb": "benchmarks.learning.levels:Climb",
    "pool": "uniform",
}
ROWS, COMMAND = RESULTS / "levels.jsonl", "python -m benchmarks.learning.levels --summary"
POOL, LATEST, UP, DOWN = 500, 20, 0.7, 0.1


class Climb(Selection):
    """One level at a time: up when the latest groups succeed, down when they fail."""

    takes_levels = True

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.repeats, self.level = True, 0
        self.latest: deque[float] = deque(maxlen=LATEST)

    def select(self, n: int, step: int) -> Choice:
        if len(self.latest) == LATEST:
            mean = float(np.mean(self.latest))
            moved = self.level + (mean > UP) - (mean < DOWN)
            if moved != self.level:
                self.level = int(np.clip(moved, 0, self.table.size - 1))
                self.latest.clear()
        return Choice.of(np.full(n, self.level), Reason.PRIORITY)

    def observe(self, outcome: Outcome) -> None:
        self.latest.extend(self.table.success_rate(outcome.mean).tolist())

    def state_dict(self) -> dict[str, Any]:
        return {"level": self.level, "latest": np.array(self.latest)}

    def load_state_dict(self, state: Any) -> None:
        self.level = int(state["level"])
        self.latest = deque(state["latest"].tolist(), maxlen=LATEST)


def train_once(family: str, method: str, seed: int, rollouts: int) -> dict[str, Any]:
    """A run, and its row."""
    source, recipe = f"levels:lab/{family}", lab_family(family).recipe
    with tempfile.TemporaryDirectory() as folder:
        data = source
        if method == "pool":
            data = write_pool(Path(folder) / "pool.jsonl", source)
        settings = TrainSettings(
            data=data, model=f"lab:{family}", curriculum=METHODS[method], rollouts=rollouts, seed=seed,
            reward="auto" if family == "locks" else source, eval_data=source, eval_prompts=300,
            eval_samples=2, prompts_per_step=16, rollouts_per_prompt=8, eval_every=rollouts // (16 * 8 * 4),
            learning_rate=recipe.learning_rate, warmup_steps=10,
            max_completion_length=recipe.max_completion_length, save_every=100_000,
            environment="benchmarks.learning.levels:locks" if family == "locks" else None,
        )  # fmt: skip
        prepared = plan(settings)
        lines, groups = train_run(prepared)
    scores = [line["eval/pass@1"] for line in lines if "eval/pass@1" in line]
    levels = [int(group["key"].split("/")[1]) for group in groups] if method != "pool" else []
    return {
        "family": family, "method": method, "seed": seed, "rollouts": rollouts, "before": scores[0],
        "end": scores[-1], "mean": float(np.mean(scores[1:])),
        "signal": float(np.mean([group["variance"] > 1e-9 for group in groups])),
        "first_levels": float(np.mean(levels[: len(levels) // 4])) if levels else None,
        "last_levels": float(np.mean(levels[-len(levels) // 4 :])) if levels else None,
        "by_level": by_level(prepared), "seconds": lines[-1]["cpu_seconds"],
    }  # fmt: skip


def by_level(prepared: Plan) -> list[float]:
    """The trained model's pass@1 on the held-out problems of each level, from the easiest."""
    (held_out,), settings = prepared.held_out, prepared.settings
    with beside_training(prepared.model, settings.seed):
        rewards_PG = sampled_rewards(
            prepared.model, prepared.tokenizer, held_out.prompts, held_out.reward,
            environment=held_out.environment, samples=4,
            settings=SamplingSettings(settings.max_completion_length or 1, settings.temperature),
        )  # fmt: skip
    level_P = np.array([row["level"] for row in held_out.prompts])
    return [round(float(rewards_PG[level_P == level].mean()), 4) for level in np.unique(level_P)]


def locks() -> Any:
    """The environment of the locks, by the name that a data set of a pool can give."""
    return lab_family("locks")


def write_pool(path: Path, source: str) -> str:
    """A fixed pool of training problems, equally many of each level."""
    levels = load_levels(source)
    each = -(-POOL // len(levels))
    rows = [levels.problem(arm, number, 0) for arm in range(len(levels)) for number in range(4 * each)]
    kept: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        arm = row["key"].rpartition("/")[0]
        if row["prompt"] not in kept and counts[arm] < each:
            kept[row["prompt"]] = row
            counts[arm] += 1
    path.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))
    return str(path)


def table(rows: list[dict[str, Any]]) -> str:
    """The page: the scores of each family and method, their gains over uniform levels, and every level."""
    by: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by[row["family"], row["method"]].append(row)
    lines = [
        "| family | method | before | at the end | mean over the run | mean less uniform, same seeds | "
        "groups with a signal | level, first and last quarter | rollouts | seeds |",
        f"|---|---|{'--:|' * 8}",
    ]
    gains: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    for family in FAMILIES:
        base = {row["seed"]: row for row in by[family, "uniform"]}
        for method in METHODS:
            runs = [row for row in by[family, method] if row["seed"] in base]
            if not runs:
                continue
            gain = {
                score: np.array([row[score] - base[row["seed"]][score] for row in runs])
                for score in ("mean", "end")
            }
            for score, gain_S in gain.items():
                gains[method, score].append(gain_S)
            mean = {
                name: np.mean([row[name] for row in runs]) for name in ("before", "end", "mean", "signal")
            }
            quarters = [(row["first_levels"], row["last_levels"]) for row in runs]
            moved = "" if method == "pool" else "{:.1f}, {:.1f}".format(*np.mean(quarters, axis=0))
            less = "" if method == "uniform" else mean_with_interval([gain["mean"]])
            lines.append(
                f"| {family} | {method} | {mean['before']:.3f} | {mean['end']:.3f} | {mean['mean']:.3f} | "
                f"{less} | {mean['signal']:.2f} | {moved} | "
                f"{runs[0]['rollouts']:,} | {len(runs)} |"
            )
    lines += [
        "",
        "| less uniform, mean over the families | mean over the run | at the end | families |",
        "|---|--:|--:|--:|",
    ]
    for method in METHODS:
        if method != "uniform" and gains[method, "mean"]:
            both = [mean_with_interval(gains[method, score]) for score in ("mean", "end")]
            lines.append(f"| {method} | {both[0]} | {both[1]} | {len(gains[method, 'mean'])} |")
    lines += ["", "pass@1 of the trained models at each level, from the easiest:", ""]
    for family in FAMILIES:
        if not by[family, "uniform"]:
            continue
        levels = len(by[family, "uniform"][0]["by_level"])
        lines += [f"| {family} | {' | '.join(map(str, range(levels)))} |", f"|---|{'--:|' * levels}"]
        for method in METHODS:
            if by[family, method]:
                mean_L = np.mean([row["by_level"] for row in by[family, method]], axis=0)
                lines.append(f"| {method} | {' | '.join(f'{value:.2f}' for value in mean_L)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", default=FAMILIES, metavar="FAMILY")
    parser.add_argument("--methods", nargs="*", default=tuple(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=12800)
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    cases = (
        {"family": family, "method": method, "seed": seed, "rollouts": args.rollouts}
        for seed in range(0 if args.summary else args.seeds)
        for family in args.families
        for method in args.methods
    )
    rows = complete_rows(ROWS, cases, train_once)
    write_page("levels", "Levels of generated problems", COMMAND, table(rows))


if __name__ == "__main__":
    main()

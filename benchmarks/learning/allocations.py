"""What allocations gain over groups of equal size, from the rows of `benchmarks.bench` in results/.

    python -m benchmarks.learning.allocations

Runs of one task and seed are paired. A number is the mean difference at the end of training over the hard
pools and seeds, with Student's 95% interval over the seeds within each pool.
"""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
from benchmarks.common import RESULTS, mean_with_interval, write_page

RULES = ("knapsack", "hit", "screen", "until", "pods")
SELECTIONS = ("uniform", "frontier", "oracle")


def last_scores() -> dict[str, dict[tuple[str, str, int], float]]:
    """By score and by (method, task, seed), what a run on a hard pool ended with."""
    found: dict[str, dict[tuple[str, str, int], float]] = {"pass_1": {}, "pass_4": {}}
    for row in pq.read_table(RESULTS / "results.parquet").to_pylist():
        if row["task"].endswith("/hard") and row["rate"] == 1:
            for score, ends in found.items():
                ends[row["method"], row["task"], row["seed"]] = row[score][-1]
    return found


def gain(ends: dict[tuple[str, str, int], float], method: str, base: str) -> str:
    """Mean difference and its interval; a dash where no pairs have run."""
    pools: dict[str, list[float]] = {}
    for (name, task, seed), end in ends.items():
        if name == method and (base, task, seed) in ends:
            pools.setdefault(task, []).append(end - ends[base, task, seed])
    if not pools:
        return "-"
    shown = mean_with_interval([np.array(one) for one in pools.values()])
    seeds = min(len(one) for one in pools.values())
    return shown if seeds == 5 else f"{shown} ({seeds} seed{'s' if seeds > 1 else ''})"


def main() -> None:
    scores = last_scores()
    lines = []
    for selection in SELECTIONS:
        lines += [f"| `{selection}` | pass@1 | pass@4 |", "|---|--:|--:|"]
        for rule in RULES:
            both = [gain(ends, f"{selection}, {rule}", selection) for ends in scores.values()]
            if set(both) != {"-"}:
                lines.append(f"| `{rule}` | {both[0]} | {both[1]} |")
        lines.append("")
    text = "\n".join(lines)
    print(text)
    write_page(
        "allocation", "What allocations gain over `equal`", "python -m benchmarks.learning.allocations", text
    )


if __name__ == "__main__":
    main()

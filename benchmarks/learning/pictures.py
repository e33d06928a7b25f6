"""What the benchmark found, drawn from the committed rows in benchmarks/results; seconds.

    python -m benchmarks.learning.pictures

* docs/img/result-pools.svg: held-out pass@1 against rollouts in each hard pool, for uniform sampling,
  frontier and the oracle.
* docs/img/result-methods.svg: every method's pass@1 at the end, over the hard and over the easy pools.

Lines are interquartile means over the seeds of a pool, then the mean over pools; bands are 95% intervals of a
bootstrap that draws seeds again within each pool, as in the tables of results/methods.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from benchmarks.bench.plan import BASELINE, CEILING, METHODS
from benchmarks.bench.results import Results
from benchmarks.bench.statistics import POINTS, ResultRows, bootstrap, curves, iqm
from benchmarks.bench.tasks import pool_of
from benchmarks.common import PICTURES, RESULTS
from matplotlib.axes import Axes

DRAWN = {CEILING: "#777777", "frontier": "#d55e00", BASELINE: "#0072b2"}
STYLE = {
    "svg.hashsalt": "curro",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 2,
}
Pools = dict[str, dict[str, ResultRows]]


def band(pools: Sequence[ResultRows]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over pools and its interval (E,) at equal parts of the budget."""
    scores = [curves(runs) for runs in pools]  # (S, E)
    found = [bootstrap(iqm, [scores_SE[:, point] for scores_SE in scores]) for point in range(POINTS)]
    middle, low, high = np.array([[at.value, at.low, at.high] for at in found]).T
    return middle, low, high


def draw_curves(axes: Axes, pools: Pools, budget: float) -> None:
    x = np.linspace(0, budget, POINTS)
    for name, colour in DRAWN.items():
        middle, low, high = band([methods[name] for methods in pools.values()])
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
        axes.plot(x, middle, color=colour, ls="--" if name == CEILING else "-", label=name)
    axes.set(xlim=(0, budget))


def draw_ends(axes: Axes, pools: Pools, title: str) -> None:
    """Final pass@1 of the methods that ran on all pools."""
    names = [name for name in METHODS if all(name in methods for methods in pools.values())]
    ends = {
        name: [curve[-1] for curve in band([methods[name] for methods in pools.values()])] for name in names
    }
    order = sorted(names, key=lambda name: ends[name][0])
    for y, name in enumerate(order):
        middle, low, high = ends[name]
        colour = DRAWN.get(name, "#444444")
        axes.plot([low, high], [y, y], color=colour, lw=1.5)
        axes.plot(middle, y, "o", color=colour, ms=5)
    axes.axvline(ends[BASELINE][0], color=DRAWN[BASELINE], ls=":", lw=1)
    axes.set_yticks(range(len(order)), order)
    axes.set(title=title, xlabel="held-out pass@1")


def main() -> None:
    tasks = Results.open(RESULTS / "results.parquet").of()
    by_pool = {
        pool: {task: methods for task, methods in tasks.items() if pool_of(task) == pool}
        for pool in ("hard", "easy")
    }
    hard = by_pool["hard"]
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(1, len(hard), figsize=(3 * len(hard), 2.9), layout="constrained")
        for panel, (task, methods) in zip(panels, hard.items(), strict=True):
            draw_curves(panel, {task: methods}, methods[BASELINE][0]["budget"])
            panel.set(title=task, xlabel="rollouts")
        panels[0].set_ylabel("held-out pass@1")
        panels[0].legend(frameon=False, loc="upper left")
        figure.savefig(PICTURES / "result-pools.svg", metadata={"Date": None})

        figure, sides = plt.subplots(1, 2, figsize=(10, 6.5), layout="constrained")
        for side, (difficulty, pools) in zip(sides, by_pool.items(), strict=True):
            draw_ends(side, pools, f"{len(pools)} {difficulty} pools")
        figure.savefig(PICTURES / "result-methods.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

"""The paper's ablations of METIS in small: exemplars, the weight of the judgment loss, hard and easy pools.

    python benchmarks/metis.py              # 27 runs; tables and pictures into docs/metis.md
    python benchmarks/metis.py --quick      # a few steps of one seed, writes nothing

Trains the lab's chains_judge, whose warm model judges, with every variant, the same seeds and the same budget
of rollouts. Typed again after Ctrl-C it goes on where it stopped. Intervals are Student's, at 95%, over
seeds: they hold for normal scores, and three seeds make them wide.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import typer
from matplotlib.axes import Axes
from variants import DOCS, Tables, interval, train, write

from curro.report.compare import METRIC, Row, comparison_table, pool
from curro.report.drawing import trailing_mean
from curro.report.history import History, read_history
from curro.runs import RunFolder

METIS = "metis:template=lab,max_tokens=12"
EXEMPLARS, WEIGHTS = (0, 3, 9), ("0", "0.01", "1")
HARD, EASY = "lab:chains_judge", "lab:chains_judge/easy"
TABLES: Tables = {
    "No exemplars, no lessons (table 2 of the paper)": {
        "no curriculum": "uniform",
        "PCL": "pcl",
        "K = 0": f"{METIS},exemplars=0",
        "lambda = 0": f"{METIS},weight=0",
        "METIS": METIS,
    },
    "Weight of the judgment loss (table 6a)": {
        f"lambda = {weight}": METIS if weight == "0.01" else f"{METIS},weight={weight}" for weight in WEIGHTS
    },
    "Exemplars (table 6b)": {f"K = {k}": METIS if k == 3 else f"{METIS},exemplars={k}" for k in EXEMPLARS},
}
POOLS: Tables = {"pools": {"no curriculum": "uniform", "METIS": METIS}}
Histories = dict[str, list[History]]


def at_ends(histories: Sequence[History], metric: str) -> str:
    """Means over seeds of the first and the last tenth of a metric's values, where all seeds have any."""
    ends = []
    for history in histories:
        values = history.series(metric)[1]
        if not len(values):
            return "-"
        few = max(1, len(values) // 10)
        ends.append((values[:few].mean(), values[-few:].mean()))
    start, end = np.mean(ends, axis=0)
    return f"{start:.3f}, {end:.3f}"


def line(label: str, row: Row, histories: Sequence[History]) -> str:
    """A variant: its accuracy, and what its judgments were."""
    signal = np.mean([history.series("signal_share")[1].mean() for history in histories])
    cells = [label, f"`{row.name}`", interval(row), f"{signal:.2f}"]
    if len(histories[0].series("judge/judgments")[1]):
        judged = sum(history.last("judge/judgments") for history in histories)
        failed = sum(history.last("judge/failures") for history in histories)
        predictions = [at_ends(histories, f"judge/{what}_prediction") for what in ("mean", "std")]
        cells += [f"{failed / judged:.1%}", *predictions]
    else:
        cells += ["-"] * 3
    return f"| {' | '.join(cells)} |"


def report(runs: Mapping[str, Sequence[RunFolder]], histories: Histories, intro: str) -> str:
    """The tables as Markdown."""
    rows = {row.name: row for row in comparison_table(runs)}
    parts = [intro]
    for title, variants in TABLES.items():
        lines = [line(label, rows[name], histories[name]) for label, name in variants.items()]
        parts.append(
            f"### {title}\n\n| | curriculum | held-out pass@1 | groups with signal | judgments that failed | "
            "mean prediction, start, end | its deviation |\n|---|---|--:|--:|--:|--:|--:|\n"
            + "\n".join(lines)
        )
    return "\n\n".join(parts) + "\n"


def curve(axis: Axes, label: str, seeds: Sequence[History], metric: str, *, smooth: bool = True) -> None:
    """The mean over seeds, and of the last ten steps if `smooth`, with one standard error to both sides."""
    found = pool(label, seeds, metric, "step")
    mean, error = (trailing_mean(part) if smooth else part for part in (found.mean, found.error))
    (drawn,) = axis.plot(found.x, mean, label=label)
    axis.fill_between(found.x, mean - error, mean + error, alpha=0.2, linewidth=0, color=drawn.get_color())


def picture_pools(pools: Mapping[str, Histories], path: Path) -> None:
    """Figure 4: the training batch's mean reward, and held-out accuracy, from a hard and an easy pool."""
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5), sharex="col", layout="constrained")
    for column, (title, histories) in enumerate(pools.items()):
        for label, name in POOLS["pools"].items():
            curve(axes[0, column], label, histories[name], "reward")
            curve(axes[1, column], label, histories[name], METRIC, smooth=False)
        axes[0, column].axhline(0.5, color="0.5", linestyle="--")
        axes[0, column].set(title=title, ylabel="mean reward of the batch", ylim=(0, 1))
        axes[1, column].set(xlabel="training step", ylabel="held-out pass@1")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def picture_predictions(histories: Histories, path: Path) -> None:
    """Figures 6 and 10: mean and standard deviation of the candidates' predictions over training."""
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.8), layout="constrained")
    for axis, what in zip(axes, ("mean", "std"), strict=True):
        for label, name in TABLES["Weight of the judgment loss (table 6a)"].items():
            curve(axis, label, histories[name], f"judge/{what}_prediction")
        axis.set_xlabel("training step")
    axes[0].axhline(0.25, color="0.5", linestyle="--")
    axes[0].set(ylabel="mean prediction", ylim=(0, 0.27))
    axes[1].set(ylabel="deviation of the predictions", ylim=(0, 0.14))
    axes[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="one seed, a few steps, nothing written")] = False,
    seeds: Annotated[int, typer.Option(help="runs of each variant")] = 3,
    rollouts: Annotated[int, typer.Option(help="the budget of each run")] = 6400,
    prompts: Annotated[int, typer.Option(help="prompts a step")] = 16,
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("runs/metis"),
) -> None:
    if quick:
        seeds, rollouts, out = 1, 512, out.with_name("metis-quick")
    options = (
        f"--prompts-per-step={prompts}",
        f"--rollouts={rollouts}",
        f"--seeds={seeds}",
        "--eval-every=10",
        f"--eval-prompts={50 if quick else 250}",
    )
    hard = train(TABLES, out / "hard", f"--data={HARD}", *options)
    easy = train(POOLS, out / "easy", f"--data={EASY}", *options)
    histories = {name: [read_history(run) for run in runs] for name, runs in hard.items()}
    easily = {name: [read_history(run) for run in runs] for name, runs in easy.items()}
    intro = (
        f"Held-out pass@1 after {rollouts:,} rollouts of `{HARD}`, {prompts} prompts a step, mean of {seeds} "
        "seeds and 95% interval; the share of failed judgments in the whole run; mean and standard deviation "
        "of the predictions for a step's candidates, in the first and the last tenth of the steps."
    )
    text = report(hard, histories, intro)
    typer.echo(text)
    pictures = out if quick else DOCS / "img"
    plt.rcParams["svg.hashsalt"] = "curro"
    pools = {"a hard pool": histories, "an easy pool": easily}
    picture_pools(pools, pictures / "metis-pools.svg")
    picture_predictions(histories, pictures / "metis-predictions.svg")
    if not quick:
        write(DOCS / "metis.md", text + SEEN)


SEEN = """
The same from a hard pool and from an easy one (figure 4), with one standard error, and the predictions by the
weight of the judgment loss (figures 6 and 10):

![Mean reward of the batch and held-out accuracy](img/metis-pools.svg)

![Mean and deviation of the predictions](img/metis-predictions.svg)
"""


if __name__ == "__main__":
    typer.run(main)

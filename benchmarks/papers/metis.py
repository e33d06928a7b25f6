"""The paper's ablations of METIS in small: exemplars, the weight of the judgment loss, pools, rewards.

    python -m benchmarks.papers.metis              # trains what has no row yet; hours on one core
    python -m benchmarks.papers.metis --report     # trains nothing, writes results/metis.md
    python -m benchmarks.papers.metis --quick      # a few steps of one seed, writes no row

Trains the lab's chains_calibrated, whose warm model judges from up to 9 recent results, with every variant,
the same seeds and the same budget of rollouts. Three tables have other models: chains_judge, which judges by
an instruction; one that judges by examples alone (`ByExample`, made in runs/metis); and chains_judge with
rewards between 0 and 1. Every run adds a row to benchmarks/results/metis.jsonl as it ends, so that the
command goes on where it was stopped. Intervals are Student's, at 95%, over seeds: they hold for normal
scores, and few seeds make them wide.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import typer
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.learning.warm_models import WARM, warm_start
from benchmarks.papers.variants import Results, Row, Summary, Tables, Variant, mean_interval, not_run
from matplotlib.axes import Axes

from curro.lab.families.chains import ChainsJudge
from curro.runs.report.compare import METRIC
from curro.runs.report.figures import trailing_mean

HARD = "lab:chains_calibrated"
METIS = "metis:template=lab-compact,max_tokens=12"
SERIES = (
    "reward",
    "signal_share",
    "eval/reward",
    "judge/reward",
    "judge/mean_prediction",
    "judge/std_prediction",
    "judge/judgments",
    "judge/failures",
)


def variant(options: str = "") -> Variant:
    return Variant(METIS + options)


UNIFORM = Variant("uniform")
WEIGHTS = {"0": variant(",weight=0"), "0.01": variant(), "1": variant(",weight=1")}
TABLES: Tables = {
    "Weight of the judgment loss (table 6a)": {
        f"lambda = {weight}": trained for weight, trained in WEIGHTS.items()
    },
    "No exemplars, no judgment loss (table 2)": {
        "no curriculum": UNIFORM,
        "K = 0": variant(",exemplars=0"),
        "lambda = 0": WEIGHTS["0"],
        "METIS": variant(),
        "PCL": Variant("pcl"),
    },
    "Exemplars (table 6b)": {
        "K = 0": variant(",exemplars=0"),
        "K = 3": variant(),
        "K = 9": variant(",exemplars=9"),
    },
}
EASY = {"data": f"{HARD}/easy"}
POOLS = {
    "a hard pool": {"no curriculum": UNIFORM, "METIS": variant()},
    "an easy pool": {"no curriculum": Variant("uniform", EASY), "METIS": Variant(METIS, EASY)},
}
SHARE = {"data": "lab:chains_share", "model": "lab:chains_judge"}
CONTINUOUS = {
    "no curriculum": Variant("uniform", SHARE),
    "METIS": Variant("metis:template=lab,max_tokens=12", SHARE),
}
"""Rewards between 0 and 1: the share of right digits, with a model that can judge the same problems."""
TEMPLATE = Path("benchmarks/papers/judgment_by_example.txt")
BY_EXAMPLE = Path("runs/metis/by-example")
"""The model of `ByExample`, made unless it exists."""
JUDGES = {
    "`chains_judge`": ({"data": "lab:chains_judge"}, "metis:template=lab,max_tokens=12"),
    "that judges by example": (
        {"data": "lab:chains_judge", "model": str(BY_EXAMPLE)},
        f"metis:template={TEMPLATE},max_tokens=12",
    ),
}
TABLES |= {
    f"No exemplars (table 2), with the model {judge}": {
        "no curriculum": Variant("uniform", settings),
        "K = 0": Variant(f"{metis},exemplars=0", settings),
        "K = 3": Variant(metis, settings),
    }
    for judge, (settings, metis) in JUDGES.items()
}


class ByExample(ChainsJudge):
    """The problems of `chains_judge`; a judgment is asked for by three exemplars and no instruction.

    Without exemplars the question is a problem like any other, and the model solves it.
    """

    name = "chains_by_example"


def write_by_example() -> None:
    """Make the model of `ByExample`, which takes a minute or two."""
    warm = replace(WARM["chains_judge"], shown=(3,), template=str(TEMPLATE))
    model, tokenizer = warm_start(ByExample(), warm)
    model.save_pretrained(BY_EXAMPLE)
    tokenizer.save_pretrained(BY_EXAMPLE)


def at_ends(rows: Sequence[Row], metric: str, few: int | None = None) -> str:
    """Means over seeds of a metric's first and last `few` values, or tenth; - where a run has none."""
    ends = []
    for row in rows:
        values = np.array(row["series"][metric][1])
        if not len(values):
            return "-"
        count = few or max(1, len(values) // 10)
        ends.append((values[:count].mean(), values[-count:].mean()))
    start, end = np.mean(ends, axis=0)
    return f"{start:.3f}, {end:.3f}"


def line(label: str, trained: Variant, rows: Sequence[Row]) -> str:
    """A variant: its accuracy, and what its judgments were."""
    cells = [label, f"`{trained.key}`"]
    signal = np.mean([np.mean(row["series"]["signal_share"][1]) for row in rows])
    cells += [Summary.of(rows).interval, f"{signal:.2f}"]
    if rows[0]["series"]["judge/judgments"][1]:
        judged = sum(row["series"]["judge/judgments"][1][-1] for row in rows)
        failed = sum(row["series"]["judge/failures"][1][-1] for row in rows)
        cells += [
            f"{failed / judged:.1%}",
            *(at_ends(rows, f"judge/{what}_prediction") for what in ("mean", "std")),
        ]
    else:
        cells += ["-"] * 3
    return f"| {' | '.join([*cells, str(len(rows))])} |"


def report(results: Results, intro: str) -> str:
    """The tables as Markdown."""
    parts = [intro]
    missing = {v.key for table in (*TABLES.values(), *POOLS.values(), CONTINUOUS) for v in table.values()}
    missing -= {row["variant"] for row in results.rows()}
    for title, variants in TABLES.items():
        run = {label: (trained, results.of(trained)) for label, trained in variants.items()}
        lines = [line(label, trained, rows) for label, (trained, rows) in run.items() if rows]
        if len(lines) < 2:
            continue
        parts.append(
            f"## {title}\n\n| | curriculum | held-out pass@1 | groups with signal | judgments that failed | "
            "mean prediction, start, end | its deviation | seeds |\n|---|---|--:|--:|--:|--:|--:|--:|\n"
            + "\n".join(lines)
        )
    parts += continuous(results)
    return "\n\n".join([*parts, *not_run(missing)]) + "\n"


def continuous(results: Results) -> list[str]:
    """The table of the runs whose rewards are between 0 and 1; none without runs."""
    lines = []
    for label, found in CONTINUOUS.items():
        if rows := results.of(found):
            rewards = [row["series"]["eval/reward"][1] for row in rows]
            ends = [mean_interval(np.array([reward[end] for reward in rewards])) for end in (0, -1)]
            signal = np.mean([np.mean(row["series"]["signal_share"][1]) for row in rows])
            judged = rows[0]["series"]["judge/judgments"][1]
            predicted = at_ends(rows, "judge/mean_prediction") if judged else "-"
            cells = [label, f"`{found.key}`", *ends, Summary.of(rows).interval, f"{signal:.2f}", predicted]
            lines.append(f"| {' | '.join([*cells, str(len(rows))])} |")
    if not lines:
        return []
    return [
        "## Rewards between 0 and 1\n\nThe reward is the share of right digits, pass@1 that of chains which "
        "are right as a whole.\n\n| | curriculum | held-out reward, start | end | held-out pass@1 | groups "
        "with signal | mean prediction, start, end | seeds |\n|---|---|--:|--:|--:|--:|--:|--:|\n"
        + "\n".join(lines)
    ]


def curve(axis: Axes, label: str, rows: Sequence[Row], metric: str, *, smooth: bool = True) -> None:
    """The mean over seeds, and of the last ten steps if `smooth`, with one standard error to both sides."""
    steps = np.array(rows[0]["series"][metric][0])
    values = np.array([np.interp(steps, *row["series"][metric]) for row in rows])
    mean = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / len(rows) ** 0.5 if len(rows) > 1 else np.zeros(len(mean))
    mean, error = (trailing_mean(part) if smooth else part for part in (mean, error))
    (drawn,) = axis.plot(steps, mean, label=label)
    axis.fill_between(steps, mean - error, mean + error, alpha=0.2, linewidth=0, color=drawn.get_color())


def picture_pools(results: Results, path: Path) -> None:
    """Figure 4: the training batch's mean reward, and held-out accuracy, from a hard and an easy pool."""
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5), sharex="col", layout="constrained")
    for column, (title, variants) in enumerate(POOLS.items()):
        for label, trained in variants.items():
            curve(axes[0, column], label, results.of(trained), "reward")
            curve(axes[1, column], label, results.of(trained), METRIC, smooth=False)
        axes[0, column].axhline(0.5, color="0.5", linestyle="--")
        axes[0, column].set(title=title, ylabel="mean reward of the batch", ylim=(0, 1))
        axes[1, column].set(xlabel="training step", ylabel="held-out pass@1")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def picture_predictions(results: Results, path: Path) -> None:
    """Figures 6 and 10: the judgments' reward, and mean and deviation of the predictions, over training."""
    metrics = ["judge/reward", "judge/mean_prediction", "judge/std_prediction"]
    figure, axes = plt.subplots(1, len(metrics), figsize=(3.6 * len(metrics), 2.8), layout="constrained")
    for axis, metric in zip(axes, metrics, strict=True):
        for weight, trained in WEIGHTS.items():
            curve(axis, f"lambda = {weight}", results.of(trained), metric)
        axis.set_xlabel("training step")
    axes[0].set(ylabel="reward of the judgments")
    axes[-2].axhline(0.25, color="0.5", linestyle="--")
    axes[-2].set(ylabel="mean prediction", ylim=(0, 0.27))
    axes[-1].set(ylabel="deviation of the predictions", ylim=(0, 0.14))
    axes[-2].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="One seed, a few steps, nothing written.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each variant.")] = 5,
    rollouts: Annotated[int, typer.Option(help="The budget of each run.")] = 6400,
    prompts: Annotated[int, typer.Option(help="Prompts a step.")] = 16,
) -> None:
    path, folder = RESULTS / "metis.jsonl", Path("runs/metis")
    if quick:
        folder = Path(tempfile.mkdtemp())
        path, seeds, rollouts = folder / "rows.jsonl", 1, 512
    results = Results(path, folder)
    common = {
        "data": HARD,
        "prompts_per_step": prompts,
        "rollouts": rollouts,
        "eval_every": 10,
        "eval_prompts": 50 if quick else 250,
    }
    if not only_report:
        if not BY_EXAMPLE.is_dir():
            write_by_example()
        for variants in (*TABLES.values(), *POOLS.values(), CONTINUOUS):
            results.run(variants.values(), seeds, common, series=SERIES)
    intro = (
        f"Held-out pass@1 after {rollouts:,} rollouts of `{HARD}`, {prompts} prompts a step, mean and 95% "
        "interval over the seeds that have been run; the share of failed judgments in the whole run; mean "
        "and standard deviation of the predictions for a step's candidates, over the first and the last "
        "tenth of the steps."
    )
    text = report(results, intro)
    typer.echo(text)
    if quick:
        return
    plt.rcParams["svg.hashsalt"] = "curro"
    if all(results.of(trained) for trained in WEIGHTS.values()):
        picture_predictions(results, PICTURES / "metis-predictions.svg")
        text += PREDICTIONS
    if all(results.of(trained) for variants in POOLS.values() for trained in variants.values()):
        picture_pools(results, PICTURES / "metis-pools.svg")
        text += FOUR
    write_page("metis", "METIS in small", "python -m benchmarks.papers.metis", text)


PREDICTIONS = """
The judgments by the weight of their loss (figures 6 and 10), with one standard error:

![Reward of the judgments, mean and deviation of the predictions](../../docs/img/metis-predictions.svg)
"""
FOUR = """
METIS and uniform sampling from a hard pool and from an easy one (figure 4), with one standard error:

![Mean reward of the batch and held-out accuracy](../../docs/img/metis-pools.svg)
"""


if __name__ == "__main__":
    typer.run(main)

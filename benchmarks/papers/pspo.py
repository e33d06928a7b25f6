"""The paper's ablations of PSPO in small: tables 1 to 4 and figures 2 to 4.

    python -m benchmarks.papers.pspo               # trains what has no row yet; hours on one core
    python -m benchmarks.papers.pspo --report      # trains nothing, writes results/pspo.md
    python -m benchmarks.papers.pspo --quick       # a minute, writes nothing

Trains the lab's spell_backward with every variant, the same seeds and the same budget of rollouts, at a
learning rate of 1e-4: with 3e-4 uniform sampling has learnt all there is within the budget. Every run adds a
row to benchmarks/results/pspo.jsonl as it ends, so that a stopped command can be repeated; the first
tables come first.

The paper's "Dr. GRPO" is "a minimal variant of GRPO, differing only by removing the response-level length
bias": TRL's loss_type dr_grpo, the standard deviation kept. Its GRPO is loss_type grpo, which divides each
response by its own length. Intervals are Student's, at 95%, over seeds: they hold for normal scores, and
three seeds make them wide.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import typer
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.papers.variants import Results, Summary, Tables, Variant, report

LENGTH_BIAS = {"loss_type": "grpo"}
STD, SMOOTHED = "advantage=group:divide_by_std=true", "advantage=smoothed"
LINEAR, NO_STD, NO_VARIANCE = f"{SMOOTHED}:variance=linear", "advantage=group", f"{SMOOTHED}:variance=none"
ALPHAS = ("1/n", "0.1", "0.3", "0.5", "0.7", "0.9", "0.99", "1")


def grpo(curriculum: str) -> Variant:
    return Variant(curriculum, LENGTH_BIAS)


TABLES: Tables = {
    "Parts, on GRPO (table 1 of the paper)": {
        "GRPO": grpo(f"uniform {STD}"),
        "+ ERS": grpo(f"uniform {SMOOTHED}"),
        "+ PPS": grpo(f"pspo {STD}"),
        "+ ERS + PPS": grpo(f"pspo {SMOOTHED}"),
    },
    "Linear variance (13), on GRPO (table 3)": {
        "GRPO": grpo(f"uniform {STD}"),
        "+ ERS": grpo(f"uniform {LINEAR}"),
        "+ ERS + PPS": grpo(f"pspo {LINEAR}"),
    },
    "Parts, on Dr. GRPO as the paper has it (table 2)": {
        "Dr. GRPO": Variant(f"uniform {STD}"),
        "+ ERS": Variant(f"uniform {SMOOTHED}"),
        "+ PPS": Variant(f"pspo {STD}"),
        "+ ERS + PPS": Variant(f"pspo {SMOOTHED}"),
    },
    "Without a variance: A = r - V (table 4)": {
        "without a curriculum": Variant(f"uniform {NO_STD}"),
        "+ ERS": Variant(f"uniform {NO_VARIANCE}"),
        "+ PPS": Variant(f"pspo {NO_STD}"),
        "+ ERS + PPS": Variant(f"pspo {NO_VARIANCE}"),
    },
    "Smoothing factor, ERS with uniform sampling (figure 4)": {
        f"alpha = {alpha}": grpo("uniform " + (SMOOTHED if alpha == "0.99" else f"{SMOOTHED}:alpha={alpha}"))
        for alpha in ALPHAS
    },
    "Priorities, on GRPO (figure 2)": {
        "last": grpo(f"pspo {STD}"),
        "mean": grpo(f"pspo:priority=mean {STD}"),
        "max": grpo(f"pspo:priority=max {STD}"),
        "informativeness (not in the paper)": grpo(f"pspo:priority=informativeness {STD}"),
    },
    "Statistics of the priority, with ERS (figure 3)": {
        "raw": grpo(f"pspo {SMOOTHED}"),
        "smoothed": grpo(f"pspo:statistics=smoothed {SMOOTHED}"),
    },
}


def picture(results: Results, path: Path) -> bool:
    """Figure 4; whether all of its variants have a run."""
    variants = TABLES["Smoothing factor, ERS with uniform sampling (figure 4)"].values()
    rows = [results.of(variant) for variant in [*variants, grpo(f"uniform {STD}")]]
    if not all(rows):
        return False
    *points, level = [Summary.of(seeds).finals for seeds in rows]
    plt.rcParams["svg.hashsalt"] = "curro"
    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    errors = [finals.std(ddof=1) / len(finals) ** 0.5 if len(finals) > 1 else 0.0 for finals in points]
    axis.errorbar(
        range(len(points)), [p.mean() for p in points], yerr=errors, fmt="o-", capsize=3, label="ERS"
    )
    axis.axhline(level.mean(), color="0.5", linestyle="--", label="GRPO")
    axis.set_xticks(range(len(ALPHAS)), ALPHAS)
    axis.set_xlabel("alpha, the weight of the present group")
    axis.set_ylabel("pass@1, mean and standard error")
    axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    return True


def main(
    quick: Annotated[bool, typer.Option(help="One seed, a few steps, nothing written.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each variant.")] = 3,
    rollouts: Annotated[int, typer.Option(help="The budget of each run.")] = 12_800,
) -> None:
    path, folder = RESULTS / "pspo.jsonl", Path("runs/pspo")
    if quick:
        folder = Path(tempfile.mkdtemp())
        path, seeds, rollouts = folder / "rows.jsonl", 1, 320
    results = Results(path, folder)
    common = {
        "data": "lab:spell_backward",
        "limit": 1000,
        "rollouts": rollouts,
        "learning_rate": 1e-4,
        "eval_every": 50,
    }
    if not only_report:
        for table in TABLES.values():
            results.run(table.values(), seeds, common)
    intro = (
        f"Held-out pass@1 after {rollouts:,} rollouts with its 95% interval over the seeds that have been "
        "run, and the rollouts to what the first row of a table reaches at its end.\n\n"
    )
    text = intro + report(TABLES, results)
    typer.echo(text)
    if not quick:
        if picture(results, PICTURES / "pspo-alpha.svg"):
            text += "\n![Accuracy against the smoothing factor](../../docs/img/pspo-alpha.svg)\n"
        write_page("pspo", "PSPO's parts", "python -m benchmarks.papers.pspo", text)


if __name__ == "__main__":
    typer.run(main)

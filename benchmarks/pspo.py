"""The paper's ablations of PSPO in small: which part helps, which priority, which smoothing factor.

    python benchmarks/pspo.py               # 57 runs: about 40 minutes on two cores; tables into docs/pspo.md
    python benchmarks/pspo.py --quick       # a minute, writes nothing

Trains the lab's spell_backward with every variant, the same seeds and the same budget of rollouts, at a
learning rate of 1e-4: with 3e-4 uniform sampling has learnt all there is within the budget.
Typed again after Ctrl-C it goes on where it stopped. Intervals are Student's, at 95%, over seeds: they hold
for normal scores, and three seeds make them wide.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import typer
from variants import DOCS, Tables, report, train, write

from curro.report.compare import Row, comparison_table

GRPO, DR = "advantage=group:divide_by_std=true", "advantage=group"
ERS, DR_ERS = "advantage=smoothed", "advantage=smoothed:variance=none"
ALPHAS = ("1/n", "0.1", "0.3", "0.5", "0.7", "0.9", "0.99", "1")
TABLES: Tables = {
    "Parts, on GRPO (table 1 of the paper)": {
        "GRPO": f"uniform {GRPO}",
        "+ ERS": f"uniform {ERS}",
        "+ PPS": f"pspo {GRPO}",
        "+ ERS + PPS": f"pspo {ERS}",
    },
    "Parts, on Dr. GRPO (table 2; smoothed without variance, table 4)": {
        "Dr. GRPO": f"uniform {DR}",
        "+ ERS": f"uniform {DR_ERS}",
        "+ PPS": f"pspo {DR}",
        "+ ERS + PPS": f"pspo {DR_ERS}",
    },
    "Priorities, with GRPO (figure 2)": {
        "last": f"pspo {GRPO}",
        "mean": f"pspo:priority=mean {GRPO}",
        "max": f"pspo:priority=max {GRPO}",
        "informativeness (not in the paper)": f"pspo:priority=informativeness {GRPO}",
    },
    "Statistics of the priority, with ERS (figure 3)": {
        "raw": f"pspo {ERS}",
        "smoothed": f"pspo:statistics=smoothed {ERS}",
    },
    "Smoothing factor, ERS with uniform sampling (figure 4)": {
        f"alpha = {alpha}": "uniform " + (ERS if alpha == "0.99" else f"{ERS}:alpha={alpha}")
        for alpha in ALPHAS
    },
}


def picture(rows: dict[str, Row], path: Path) -> None:
    plt.rcParams["svg.hashsalt"] = "curro"
    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    variants = list(TABLES["Smoothing factor, ERS with uniform sampling (figure 4)"].values())
    scores = [rows[name].final for name in variants]
    errors = [rows[name].error or 0.0 for name in variants]
    axis.errorbar(range(len(scores)), scores, yerr=errors, fmt="o-", capsize=3, label="ERS")
    level = rows[f"uniform {GRPO}"].final
    axis.axhline(level, color="0.5", linestyle="--", label="GRPO")
    axis.set_xticks(range(len(ALPHAS)), ALPHAS)
    axis.set_xlabel("alpha, the weight of the present group")
    axis.set_ylabel("pass@1, mean and standard error")
    axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="one seed, a few steps, nothing written")] = False,
    seeds: Annotated[int, typer.Option(help="runs of each variant")] = 3,
    rollouts: Annotated[int, typer.Option(help="the budget of each run")] = 12_800,
    data: Annotated[str, typer.Option(help="the lab's task")] = "lab:spell_backward",
    limit: Annotated[int, typer.Option(help="training prompts")] = 1000,
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("runs/pspo"),
) -> None:
    if quick:
        seeds, rollouts, out = 1, 320, out.with_name("pspo-quick")
    runs = train(
        TABLES,
        out,
        f"--data={data}",
        f"--limit={limit}",
        f"--rollouts={rollouts}",
        "--learning-rate=1e-4",
        f"--seeds={seeds}",
        "--eval-every=50",
    )
    intro = (
        f"Held-out pass@1 after {rollouts:,} rollouts, mean of {seeds} seeds and 95% interval, and rollouts "
        "to what uniform sampling with GRPO reaches at the end."
    )
    text = report(TABLES, runs, intro)
    typer.echo(text)
    if not quick:
        picture({row.name: row for row in comparison_table(runs)}, DOCS / "img" / "pspo-alpha.svg")
        write(DOCS / "pspo.md", f"{text}\n![Accuracy against the smoothing factor](img/pspo-alpha.svg)\n")


if __name__ == "__main__":
    typer.run(main)

"""Prioritized replay in small: accuracy beside uniform sampling (figure 2), and what figure 3 shows inside.

    python -m benchmarks.papers.prioritized_replay             # trains what has no row yet; minutes a run
    python -m benchmarks.papers.prioritized_replay --report    # trains nothing, writes results/replay.md
    python -m benchmarks.papers.prioritized_replay --quick     # twelve steps, writes nothing

As section 5 does it: 1,000 prompts, 250 steps of 4 prompts with 8 rollouts at temperature 0.7, an evaluation
every 25 steps, no division by the deviation. A model of the lab takes the place of Qwen2.5-7B, at a learning
rate of 1e-4: at 3e-4, the lab's for groups at temperature 1, uniform sampling unlearns what the model knew.
`--scale-rate lower` is the pairing of section 4.3; it needs the default variant, since the published one does
not explore its pools and `signal/ratio` is unknown. Figure 3 of the paper has the batch's success rate and
priority, this one the unseen prompts and the heap's priority; the batch's and pass@4 are in
results/open_questions.md, and `recipes/prepare.py guru` prints figure 1. Every run adds a row to
benchmarks/results/replay.jsonl as it ends, so that the command goes on where it was stopped.
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
from benchmarks.papers.metis import at_ends, curve
from benchmarks.papers.variants import Results, Tables, Variant, report

from curro.runs.report.compare import METRIC

PUBLISHED = "prioritized-replay:variant=published"
DEFAULT = "prioritized-replay"
HIGH = {"learning_rate": 3e-4}
TABLES: Tables = {
    "Figure 2: held-out accuracy": {
        "uniform": Variant("uniform"),
        "as published": Variant(PUBLISHED),
        "default variant": Variant(DEFAULT),
    },
    "Section 4.3: a learning rate that follows the signal": {
        "default variant": Variant(DEFAULT),
        "with a scaled rate": Variant(DEFAULT, {"scale_rate": "lower"}),
    },
    "Figure 2 at a rate that is too high, 3e-4": {
        "uniform": Variant("uniform", HIGH),
        "as published": Variant(PUBLISHED, HIGH),
        "default variant": Variant(DEFAULT, HIGH),
    },
    "Section 4.3 at the rate that is too high": {
        "default variant": Variant(DEFAULT, HIGH),
        "with a scaled rate": Variant(DEFAULT, {**HIGH, "scale_rate": "lower"}),
    },
}
DYNAMICS = {
    "replay/heap_size": "prompts in the heap",
    "table/unseen": "prompts unseen",
    "replay/success_rate_std": "deviation of the success rates",
    "replay/mean_priority": "mean priority",
    "replay/solved_pool": "prompts in the solved pool",
    "replay/unsolved_pool": "prompts in the unsolved pool",
}
"""What happens inside prioritized sampling, by metric."""


def numbers(results: Results) -> str:
    """Figure 3 in numbers: means over seeds of the first and the last ten steps."""
    runs = {"1e-4": results.of(Variant(PUBLISHED)), "3e-4": results.of(Variant(PUBLISHED, HIGH))}
    lines = [
        f"| {title} | " + " | ".join(at_ends(rows, metric, 10) for rows in runs.values()) + " |"
        for metric, title in DYNAMICS.items()
    ]
    head = "| first ten steps, last ten steps | " + " | ".join(runs) + " |\n|---|--:|--:|\n"
    return head + "\n".join(lines) + "\n"


def picture_accuracy(results: Results, path: Path) -> None:
    """Figure 2: held-out accuracy against the step, a panel for each rate that has been run."""
    titles = [title for title in TABLES if title.startswith("Figure 2")]
    by_rate = {
        rate: {label: rows for label, variant in TABLES[title].items() if (rows := results.of(variant))}
        for rate, title in zip(("1e-4", "3e-4"), titles, strict=True)
    }
    panels = [(rate, shown) for rate, shown in by_rate.items() if shown]
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3), sharey=True, squeeze=False)
    figure.set_layout_engine("constrained")
    for axis, (rate, shown) in zip(axes[0], panels, strict=True):
        for label, rows in shown.items():
            curve(axis, label, rows, METRIC, smooth=False)
        axis.set(xlabel="training step", title=f"learning rate {rate}")
        axis.legend(frameon=False)
    axes[0, 0].set(ylabel="held-out pass@1")
    figure.savefig(path, metadata={"Date": None})


def picture_dynamics(results: Results, path: Path) -> None:
    """Figure 3: what happens inside, each the mean of the last ten steps."""
    figure, axes = plt.subplots(3, 2, figsize=(7.2, 6.4), sharex=True, layout="constrained")
    for axis, (metric, title) in zip(axes.flat, DYNAMICS.items(), strict=True):
        for label, settings in (("1e-4", {}), ("3e-4", HIGH)):
            if rows := results.of(Variant(PUBLISHED, settings)):
                curve(axis, label, rows, metric)
        axis.set_title(title, fontsize="medium")
    axes[0, 0].legend(frameon=False, title="learning rate")
    for axis in axes[-1]:
        axis.set_xlabel("training step")
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="One seed, twelve steps, nothing written.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each variant.")] = 5,
    data: Annotated[str, typer.Option(help="A family of the lab.")] = "lab:spell_backward",
) -> None:
    path, folder, steps = RESULTS / "replay.jsonl", Path("runs/replay"), 250
    if quick:
        folder, steps, seeds = Path(tempfile.mkdtemp()), 12, 1
        path = folder / "rows.jsonl"
    results = Results(path, folder)
    common = {
        "data": data,
        "limit": 1000,
        "prompts_per_step": 4,
        "rollouts": steps * 4 * 8,
        "learning_rate": 1e-4,
        "temperature": 0.7,
        "eval_every": min(25, steps),
        "eval_prompts": 20 if quick else 200,
    }
    if not only_report:
        variants = [variant for table in TABLES.values() for variant in table.values()]
        results.run(variants, seeds, common, series=(*DYNAMICS, "signal/ratio"))
    text = (
        f"{steps} steps of 4 prompts with 8 rollouts, from 1,000 prompts of `{data}`, at a learning rate of "
        "1e-4 where a row has no other. Held-out pass@1 at temperature 0.7, mean and 95% interval over "
        f"seeds.\n\n{report(TABLES, results)}"
    )
    typer.echo(text)
    if quick:
        return
    plt.rcParams["svg.hashsalt"] = "curro"
    picture_accuracy(results, PICTURES / "replay-accuracy.svg")
    picture_dynamics(results, PICTURES / "replay-dynamics.svg")
    text += (
        "\n![Held-out accuracy against the step](../../docs/img/replay-accuracy.svg)\n\n"
        "## Figure 3: inside prioritized replay\n\n"
        "![Heap, pools, unseen prompts and priorities](../../docs/img/replay-dynamics.svg)\n\n"
        + numbers(results)
    )
    write_page(
        "replay", "Prioritized replay in small", "python -m benchmarks.papers.prioritized_replay", text
    )


if __name__ == "__main__":
    typer.run(main)

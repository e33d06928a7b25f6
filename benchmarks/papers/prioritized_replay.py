"""Prioritized replay in small: accuracy beside uniform sampling (figure 2), and the six plots of figure 3.

    python -m benchmarks.papers.prioritized_replay             # trains what has no row yet; minutes a run
    python -m benchmarks.papers.prioritized_replay --report    # trains nothing, writes results/replay.md
    python -m benchmarks.papers.prioritized_replay --quick     # twelve steps, writes nothing

As section 5 does it: 1,000 prompts, 250 steps of 4 prompts with 8 rollouts at temperature 0.7, an evaluation
every 25 steps, no division by the deviation. A model of the lab takes the place of Qwen2.5-7B, at the lab's
learning rate. `--scale-rate` is the pairing of section 4.3. Every run adds a row to
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
from benchmarks.papers.metis import curve
from benchmarks.papers.variants import Results, Tables, Variant, report

from curro.report.compare import METRIC

PUBLISHED = "prioritized-replay:variant=published"
REPLAY, UNIFORM = Variant(PUBLISHED), Variant("uniform")
TABLES: Tables = {
    "Figure 2: held-out accuracy": {
        "uniform": UNIFORM,
        "prioritized replay": REPLAY,
        "its default variant": Variant("prioritized-replay"),
    },
    "Section 4.3: a learning rate that follows the signal": {
        "prioritized replay": REPLAY,
        "with a scaled rate": Variant(PUBLISHED, {"scale_rate": True}),
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
"""What figure 3 shows of prioritized sampling, by metric."""


def picture_accuracy(results: Results, path: Path) -> None:
    """Figure 2: held-out accuracy against the step."""
    figure, axis = plt.subplots(figsize=(4.6, 3), layout="constrained")
    for label, variant in TABLES["Figure 2: held-out accuracy"].items():
        if rows := results.of(variant):
            curve(axis, label, rows, METRIC, smooth=False)
    axis.set(xlabel="training step", ylabel="held-out pass@1")
    axis.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def picture_dynamics(results: Results, path: Path) -> None:
    """Figure 3: what happens inside, each the mean of the last ten steps."""
    figure, axes = plt.subplots(3, 2, figsize=(7.2, 6.4), sharex=True, layout="constrained")
    for axis, (metric, title) in zip(axes.flat, DYNAMICS.items(), strict=True):
        curve(axis, "", results.of(REPLAY), metric)
        axis.set_title(title, fontsize="medium")
    for axis in axes[-1]:
        axis.set_xlabel("training step")
    figure.savefig(path, metadata={"Date": None})


def main(
    quick: Annotated[bool, typer.Option(help="One seed, twelve steps, nothing written.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write the page, train nothing.")] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each variant.")] = 3,
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
        "temperature": 0.7,
        "eval_every": min(25, steps),
        "eval_prompts": 20 if quick else 200,
    }
    if not only_report:
        variants = [variant for table in TABLES.values() for variant in table.values()]
        results.run(variants, seeds, common, series=(*DYNAMICS, "signal/ratio"))
    text = (
        f"{steps} steps of 4 prompts with 8 rollouts, from 1,000 prompts of `{data}`. Held-out pass@1 at "
        f"temperature 0.7, mean and 95% interval over seeds.\n\n{report(TABLES, results)}"
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
        "![Heap, pools, unseen prompts and priorities](../../docs/img/replay-dynamics.svg)\n"
    )
    write_page(
        "replay", "Prioritized replay in small", "python -m benchmarks.papers.prioritized_replay", text
    )


if __name__ == "__main__":
    typer.run(main)

"""Methods on a pretrained model where most problems are hopeless: who finds those that can be learnt?

    make pretrained                                          # the model and the pools, in runs/pretrained
    python -m benchmarks.learning.pretrained_mixed           # trains what has no row yet
    python -m benchmarks.learning.pretrained_mixed --report  # trains nothing, writes the page

SmolLM2-135M-Instruct on the pool `sums_75`: 250 sums of two or three numbers of one or two digits among 750
that no training would teach it. Steps of 8 prompts with 4 rollouts, 3,840 rollouts a run, held-out accuracy
on 100 problems of the first kind with 4 samples each (its standard error is about .02). A row is added to
benchmarks/results/pretrained_mixed.jsonl as a run ends, seed by seed, so that all methods have equally many
wherever it is stopped. It gives up a search: of two learning rates each method has both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import PICTURES, RESULTS, write_page
from benchmarks.learning.pictures import DRAWN, STYLE
from benchmarks.papers.variants import Results, Row, Tables, Variant, mean_interval, report
from scipy.stats import ttest_1samp

from curro.bench.statistics import bootstrap, rollouts_to_level
from curro.errors import ConfigError
from curro.report.compare import METRIC

POOL = "sums_75"
COMMAND = "python -m benchmarks.learning.pretrained_mixed --report"
TABLES: Tables = {
    "Two learning rates": {
        "uniform": Variant("uniform", {"learning_rate": 3e-6}),
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "uniform, 1e-5": Variant("uniform", {"learning_rate": 1e-5}),
        "frontier, 3e-6": Variant("frontier", {"learning_rate": 3e-6}),
        "prioritized replay": Variant("prioritized-replay", {"learning_rate": 3e-6}),
        "prioritized replay, 1e-5": Variant("prioritized-replay", {"learning_rate": 1e-5}),
        "PSPO": Variant("pspo", {"learning_rate": 3e-6}),
        "PSPO, 1e-5": Variant("pspo", {"learning_rate": 1e-5}),
    },
    "Steps without signal skipped": {
        "uniform, 1e-5": Variant("uniform", {"learning_rate": 1e-5}),
        "uniform, 1e-5, skipping": Variant("uniform", {"learning_rate": 1e-5, "skip_empty_steps": True}),
        "frontier": Variant("frontier", {"learning_rate": 1e-5}),
        "frontier, skipping": Variant("frontier", {"learning_rate": 1e-5, "skip_empty_steps": True}),
    },
}
VARIANTS = {label: variant for table in TABLES.values() for label, variant in table.items()}
COMPARED = ("uniform", "frontier")
SERIES = ("eval/pass@4", "signal_share", "seconds", "cpu_seconds")


def common(folder: Path, precision: str) -> dict[str, object]:
    """The settings that all runs share.

    Raises:
        ConfigError: the folder lacks the model.
    """
    if not (folder / "model").is_dir():
        raise ConfigError(f"{folder} has no model: run make pretrained, or name its folder")
    return {
        "data": str(folder / f"{POOL}.jsonl"),
        "eval_data": str(folder / f"{POOL}.held-out.jsonl"),
        "model": str(folder / "model"),
        "reward": "math",
        "precision": precision,
        "max_completion_length": 6,
        "prompts_per_step": 8,
        "rollouts_per_prompt": 4,
        "rollouts": 3_840,
        "eval_every": 40,
        "eval_prompts": 100,
        "save_every": 1_000,
    }


def curves(rows: Results) -> str:
    """The held-out accuracy of each method as training goes on, and what the runs found and cost."""
    runs = {label: rows.of(variant) for label, variant in VARIANTS.items()}
    runs = {label: done for label, done in runs.items() if done}
    if not runs:
        return ""
    steps = next(iter(runs.values()))[0]["series"][METRIC][0]
    after = " | ".join(f"{32 * step:,}" for step in steps)
    lines = [
        f"| | seeds | {after} | pass@4 before and after | groups with signal | minutes of a core |",
        f"|---|--:|{'--:|' * len(steps)}--:|--:|--:|",
    ]
    for label, done in runs.items():
        accuracies = np.array([row["series"][METRIC][1] for row in done])
        cells = [_range(column) for column in accuracies.T]
        pass_4 = np.mean([row["series"]["eval/pass@4"][1] for row in done], axis=0)
        signal = np.mean([row["series"]["signal_share"][1] for row in done])
        minutes = np.mean([row["series"]["cpu_seconds"][1][-1] for row in done]) / 60
        cells += [f"{pass_4[0]:.3f}, {pass_4[-1]:.3f}", f"{signal:.3f}", f"{minutes:.0f}"]
        lines.append(f"| {label} | {len(done)} | {' | '.join(cells)} |")
    title = "## Held-out pass@1 after so many rollouts: the mean, the lowest and the highest seed"
    return "\n\n".join([title, "\n".join(lines), _difference(runs)]).rstrip() + "\n\n"


def _range(values: np.ndarray) -> str:
    mean = f"{values.mean():.3f}"
    return mean if len(values) == 1 else f"{mean} ({values.min():.3f} to {values.max():.3f})"


def _difference(runs: dict[str, Sequence[Row]]) -> str:
    """What `frontier` gains over uniform sampling with the same seeds."""
    by_seed = [{row["seed"]: row["series"] for row in runs.get(label, [])} for label in COMPARED]
    both = sorted(set(by_seed[0]) & set(by_seed[1]))
    if len(both) < 2:
        return ""
    steps = np.array(by_seed[0][both[0]][METRIC][0])
    theirs, ours = (np.array([series[seed][METRIC][1] for seed in both]) for series in by_seed)
    share = bootstrap(
        lambda a, b: rollouts_to_level(32 * steps, a[0], b[0]),
        [ours],
        [theirs],
    )
    best = theirs[:, theirs.mean(axis=0).argmax()]
    rows = [
        ("at the end, against uniform sampling's end", ours[:, -1] - theirs[:, -1]),
        ("at the end, against uniform sampling's best", ours[:, -1] - best),
    ]
    gains = [
        f"* {label}: {mean_interval(gain)}, p = {ttest_1samp(gain, 0).pvalue:.3f};" for label, gain in rows
    ]
    lines = [
        f"`frontier` with {len(both)} seeds, against the same seeds of uniform sampling (Student's intervals "
        "and t tests of the paired differences; the share's interval is a bootstrap's over the seeds):",
        "",
        *gains,
        f"* rollouts to uniform sampling's final level (of the mean curves, made non-decreasing), as a share "
        f"of uniform sampling's: {share.value:.2f} ({share.low:.2f} to {share.high:.2f}).",
    ]
    return "\n".join(lines)


def draw(rows: Results, picture: Path) -> None:
    """Held-out accuracy against rollouts: each seed thin, the mean thick."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        for label in COMPARED:
            curves_SE = np.array([row["series"][METRIC][1] for row in rows.of(VARIANTS[label])])
            rollouts_E = 32 * np.array(rows.of(VARIANTS[label])[0]["series"][METRIC][0])
            axes.plot(rollouts_E, curves_SE.T, color=DRAWN[label], lw=0.8, alpha=0.4)
            axes.plot(rollouts_E, curves_SE.mean(axis=0), "o-", color=DRAWN[label], label=label)
        axes.set(
            xlabel="rollouts",
            ylabel="held-out pass@1",
            title=f"SmolLM2-135M, three prompts in four hopeless, {len(curves_SE)} seeds each",
            xlim=(0, None),
        )
        axes.legend(frameon=False, loc="upper left")
        figure.savefig(picture, metadata={"Date": None})


def main(
    folder: Annotated[Path, typer.Option(help="What recipes/pretrained/prepare.py has written.")] = Path(
        "runs/pretrained"
    ),
    results: Annotated[Path, typer.Option(help="The file of rows.")] = RESULTS / "pretrained_mixed.jsonl",
    runs: Annotated[Path, typer.Option(help="Where the run in progress is.")] = Path("runs/pretrained-mixed"),
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 5,
    only_report: Annotated[bool, typer.Option("--report", help="Train nothing.")] = False,
    precision: Annotated[
        str, typer.Option(help="Of the products; float32 where the processor multiplies no 16-bit numbers.")
    ] = "bfloat16",
) -> None:
    rows = Results(results, runs)
    if not only_report:
        rows.run(
            VARIANTS.values(),
            seeds,
            common(folder, precision),
            series=SERIES,
            more=lambda prepared, folder: {"precision": precision},
        )
    write_page(
        "pretrained_mixed",
        "A pretrained model among hopeless problems",
        COMMAND,
        curves(rows) + report(TABLES, rows),
    )
    draw(rows, PICTURES / "result-pretrained.svg")


if __name__ == "__main__":
    typer.run(main)

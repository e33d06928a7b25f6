"""Online difficulty filtering in small: bands against plain GRPO, by updates and by rollouts.

    python benchmarks/band.py               # 24 runs: about 20 minutes on two cores; tables into the docs
    python benchmarks/band.py --quick       # two minutes, writes nothing

Trains the lab's spell_backward and chains with every gate, the same seeds and the same budget of rollouts,
rejected ones counted, at learning rates for plain GRPO. Typed again after Ctrl-C it goes on where
it stopped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import typer
from variants import DOCS, Tables, report, train, write

from curro.report.compare import METRIC, pool, read_runs
from curro.runs import RunFolder

TABLES: Tables = {
    "Gates, at the same budget of rollouts": {
        "plain GRPO": "least-visited",
        "0 < p < 1": "least-visited admission=band:0,1",
        "0.2 < p < 0.8": "least-visited admission=band:0.2,0.8",
        "prioritized replay, 0.2 < p < 0.8": "prioritized-replay admission=band:0.2,0.8",
    },
}


TASKS = {
    "spell_backward": (1000, 12_800, 1e-4, "4 prompts a step, 10% of groups with a signal at the start"),
    "chains": (4000, 25_600, 3e-4, "32 prompts a step, 35% of groups with a signal at the start"),
}


def by_updates(runs: dict[str, list[RunFolder]]) -> str:
    """Held-out accuracy after as many updates as the gate with the fewest made."""
    curves = {name: pool(name, seeds, METRIC, "step") for name, seeds in read_runs(runs).items()}
    least = min(float(curve.x[-1]) for curve in curves.values())
    labels = {name: label for label, name in next(iter(TABLES.values())).items()}
    lines = []
    for name, curve in curves.items():
        at = int(curve.x.searchsorted(least, side="right")) - 1
        lines.append(f"| {labels[name]} | {curve.mean[at]:.3f} ± {curve.error[at]:.3f} |")
    return (
        f"At the same number of updates ({least:,.0f}), mean and standard error:\n\n"
        "| | held-out pass@1 |\n|---|--:|\n" + "\n".join(lines) + "\n"
    )


def main(
    quick: Annotated[bool, typer.Option(help="one seed, a few steps, nothing written")] = False,
    seeds: Annotated[int, typer.Option(help="runs of each gate")] = 3,
    out: Annotated[Path, typer.Option(help="where the runs are kept")] = Path("runs/band"),
) -> None:
    parts = []
    for data, (limit, rollouts, rate, words) in TASKS.items():
        folder = out / data
        if quick:
            seeds, rollouts, folder = 1, 320, out.with_name("band-quick") / data
        runs = train(
            TABLES,
            folder,
            f"--data=lab:{data}",
            f"--limit={limit}",
            f"--rollouts={rollouts}",
            f"--learning-rate={rate}",
            f"--seeds={seeds}",
            "--eval-every=10",
            "--eval-prompts=250",
            "--refill-limit=60",
        )
        intro = (
            f"**`{data}`**, {words}: held-out pass@1 after {rollouts:,} rollouts, rejected ones counted, "
            f"mean of {seeds} seeds and 95% interval; rollouts to plain GRPO's last level; updates."
        )
        parts.append(f"{report(TABLES, runs, intro)}\n{by_updates(runs)}")
    text = "\n".join(parts)
    typer.echo(text)
    if not quick:
        write(DOCS / "difficulty-filtering.md", text)


if __name__ == "__main__":
    typer.run(main)

"""What METIS and its rivals cost beside no curriculum, in seconds (figure 5 of the METIS paper).

    python -m benchmarks.papers.metis_overhead             # some minutes; writes results/metis_overhead.md
    python -m benchmarks.papers.metis_overhead --quick     # two steps of each, writes nothing

Every method trains the same model with as many prompts and rollouts a step, in this process, one method after
the other; then all again in the opposite order, so that a machine that gets slower favours none. Counted are
processor seconds of training steps, as run folders have them: choosing, judging, rollouts and updates, and
the rollouts by which ADCL estimates prompts and which it does not train on, but no evaluations. Throughput,
the right panel, is trained rollouts a second. Responses are as short as judgments here, where the paper's
have thousands of tokens: the share of judging is the largest that there can be.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import typer
from benchmarks.common import write_page
from benchmarks.papers.metis import HARD, METIS
from benchmarks.papers.variants import Steps

from curro.runs.folder import RunFolder
from curro.training.plan import plan
from curro.training.run import train
from curro.training.settings import TrainSettings

METHODS = {
    "no curriculum": "uniform",
    "METIS": METIS,
    "SEC": "sec",
    "ADCL": "adcl allocation=estimates:estimate=4,train=8",
    "PCL": "pcl",
}
PROMPTS, SIZE = 16, 8


def seconds_a_step(curriculum: str, steps: int, folder: Path) -> np.ndarray:
    """Processor seconds (steps,) of the training steps after the first two, which compile and warm up.

    ADCL measures the 512 prompts before step 1, and each chunk of 64 again before its 4 steps.
    """
    settings = TrainSettings(
        data=HARD,
        limit=512,
        curriculum=curriculum,
        prompts_per_step=PROMPTS,
        rollouts_per_prompt=SIZE,
        rollouts=10**7,
        fill_limit=60.0,
        eval_every=0,
        eval_prompts=1,
        eval_samples=1,
    )
    prepared = plan(settings)
    prepared = replace(prepared, settings=Steps(**asdict(prepared.settings) | {"limit_steps": steps + 2}))
    run = RunFolder.create(folder, {"settings": settings.as_dict()})
    train(prepared, run)
    seconds = [line["cpu_seconds"] for line in run.metrics() if line["step"] >= 2]
    return np.diff(seconds)


def main(
    quick: Annotated[bool, typer.Option(help="Two steps of each method, nothing written.")] = False,
    steps: Annotated[int, typer.Option(help="Training steps of each method, in each of two rounds.")] = 8,
) -> None:
    measured: dict[str, list[np.ndarray]] = {name: [] for name in METHODS}
    with tempfile.TemporaryDirectory() as parent:
        for turn in range(2):
            for name in list(METHODS)[:: -1 if turn else 1]:
                folder = Path(parent) / f"{turn}-{name.replace(' ', '-')}"
                measured[name].append(seconds_a_step(METHODS[name], 2 if quick else steps, folder))
    plain = float(np.concatenate(measured["no curriculum"]).mean())
    lines = [
        "| method | curriculum | seconds a step | both rounds | over no curriculum | throughput |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name, rounds in measured.items():
        mean = float(np.concatenate(rounds).mean())
        both = ", ".join(f"{part.mean():.2f}" for part in rounds)
        cells = [
            name,
            f"`{METHODS[name]}`",
            f"{mean:.2f}",
            both,
            f"{mean / plain - 1:+.0%}",
            f"{plain / mean - 1:+.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    text = (
        f"{PROMPTS} prompts of {SIZE} rollouts a step of `{HARD}`, {2 if quick else steps} steps in each of "
        "two rounds; processor seconds of one core. Judgments are as long as responses here; in the paper "
        "responses are many times longer, and METIS takes 3.9% more.\n\n" + "\n".join(lines)
    )
    typer.echo(text)
    if not quick:
        write_page("metis_overhead", "What METIS costs", "python -m benchmarks.papers.metis_overhead", text)


if __name__ == "__main__":
    typer.run(main)

"""`curro demo`: a small model trained with and without a curriculum, from nothing but the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curro.cli.options import Jobs
from curro.cli.terminal import plain_console

BUDGET = 4800
"""Rollouts of each run."""


def demo(
    out: Annotated[Path, typer.Option(help="The folder for all runs and for the comparison's page.")] = Path(
        "runs/demo"
    ),
    rollouts: Annotated[
        int, typer.Option(min=1, help="The budget of each run. Fewer take less time and show less.")
    ] = BUDGET,
    jobs: Jobs = None,
) -> None:
    """Train a small model with and without a curriculum, and compare.

    It needs no data, no GPU and no network. Four runs, two seeds of uniform sampling and two of frontier,
    take about two minutes on two cores. After Ctrl-C, the same command continues.
    """
    from curro.cli.compare import compare

    console = plain_console()
    console.print(
        "A model of the lab learns to spell words backward. Three in four of its training words are too long "
        "ever to be spelt; held out are words that can be. A curriculum has to find out which is which."
    )
    compare(
        curricula=["uniform", "frontier"],
        seeds=2,
        jobs=jobs,
        out=out,
        config=None,
        data="lab:spell_backward",
        limit=1000,
        eval_data="lab:spell_backward/solvable",
        prompts_per_step=2,
        rollouts=rollouts,
        eval_every=30,
        eval_prompts=250,
        save_every=1000,
    )
    console.print(f"open {out / 'report.html'} in a browser; curro watch {out} shows the runs,")
    console.print(f"and curro inspect {out / 'frontier-seed0'} what the curriculum knows of each word")

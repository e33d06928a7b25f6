"""`curro curate`: a data file of the prompts whose pass rate lies within a band."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from curro.core.errors import ConfigError


def curate(
    estimated: Annotated[Path, typer.Argument(help="The folder that `curro estimate` wrote.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The data file to write, .jsonl; it must not exist yet.")
    ],
    keep: Annotated[
        str, typer.Option(metavar="LOW,HIGH", help="Keep the prompts whose pass rate lies in this band.")
    ] = "0.2,0.8",
    closed: Annotated[
        str, typer.Option(help="Which ends belong to the band: neither, low, high or both.")
    ] = "neither",
    order: Annotated[
        str,
        typer.Option(help="The order of the prompts: data (as in the data set) or easy-first."),
    ] = "data",
) -> None:
    """Write a data file of the prompts whose pass rate lies in a band.

    Train on it with `--curriculum uniform`, or with `scheduled`, which takes the prompts in their order.
    """
    from curro.runs.estimate_folder import EstimateFolder
    from curro.training.evaluation.curation import curate as choose
    from curro.training.evaluation.curation import source_of, write_prompts

    try:
        low, high = (float(end) for end in keep.split(","))
    except ValueError:
        raise ConfigError(f"--keep must be two numbers, LOW,HIGH, not {keep!r}") from None
    folder = EstimateFolder.open(estimated)
    rates = folder.pass_rates()
    prompts = source_of(folder)
    ids = choose(rates, low, high, closed=closed, order=order)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    write_prompts(out, prompts, ids, rates)
    console.print(f"{out}: {len(ids)} of {len(prompts)} prompts")

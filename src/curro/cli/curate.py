"""`curro curate`: a data file of the prompts whose pass rate lies within a band."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curro.core.errors import ConfigError
from curro.data.raw import lab_family
from curro.training.declared import flags_of


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
        typer.Option(help="The order of the prompts: data (as in the data set), easy-first or hard-first."),
    ] = "data",
) -> None:
    """Write a data file of the prompts whose pass rate lies in a band.

    Then print the command that trains on it.
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
    command = shlex.join(["curro", "train", *_train_flags(folder.settings, out, order, len(ids))])
    console.print(command)


def _train_flags(settings: dict[str, Any], out: Path, order: str, prompts: int) -> list[str]:
    """The options to train on the curated file as it was estimated.

    They include those that the lab's data would have set by itself.
    """
    asked = {
        "data": out,
        "prompt_column": "prompt",
        "answer_column": "answer",
        "key_column": "key",
        "reward": settings["reward"],
        "curriculum": "uniform" if order == "data" else "scheduled",
        "max_completion_length": settings["max_completion_length"],
        "temperature": settings["temperature"],
    }
    name = lab_family(settings["data"])
    if name is not None:
        from curro.lab import family

        recipe = family(name).recipe
        asked |= {
            "model": settings["model"] or f"lab:{name}",
            "eval_data": settings["data"],
            "eval_prompts": recipe.held_out_prompts,
            "prompts_per_step": min(recipe.prompts_per_step, prompts),
            "rollouts_per_prompt": recipe.rollouts_per_prompt,
            "learning_rate": f"{recipe.learning_rate:g}",
        }
    elif settings["model"]:
        asked["model"] = settings["model"]
    return flags_of(asked)

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
    solutions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Write worked answers instead, for curro sft: of each prompt at most this many of the "
            "completions that the reward found right, in the column solution. The estimate needs "
            "--keep-texts.",
        ),
    ] = None,
    hardest: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Keep this share of the prompts, those with the lowest pass rates, as 0.1."
        ),
    ] = None,
    like_mean_curve: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Keep the prompts whose success rate in this finished run rose as the mean did.",
        ),
    ] = None,
    least: Annotated[
        float, typer.Option(help="With --like-mean-curve: the smallest likeness that is kept, 1 at most.")
    ] = 0.6,
) -> None:
    """Write a data file of the prompts whose pass rate lies in a band, or of those that another rule keeps.

    Then print the command that trains on it.
    """
    from curro.runs.estimate_folder import EstimateFolder
    from curro.runs.folder import RunFolder
    from curro.training.evaluation.curation import curate as choose
    from curro.training.evaluation.curation import hardest as choose_hardest
    from curro.training.evaluation.curation import in_order, source_of, write_prompts, write_solutions
    from curro.training.evaluation.curation import like_mean_curve as choose_like_mean_curve

    try:
        low, high = (float(end) for end in keep.split(","))
    except ValueError:
        raise ConfigError(f"--keep must be two numbers, LOW,HIGH, not {keep!r}") from None
    folder = EstimateFolder.open(estimated)
    rates = folder.pass_rates()
    if hardest is not None and like_mean_curve is not None:
        raise ConfigError("--hardest and --like-mean-curve are two rules: give one of them")
    prompts = source_of(folder)
    if hardest is not None:
        ids = in_order(choose_hardest(rates, hardest), rates, order)
    elif like_mean_curve is not None:
        alike = choose_like_mean_curve(RunFolder.open(like_mean_curve), prompts, least)
        ids = in_order(alike, rates, order)
    else:
        ids = choose(rates, low, high, closed=closed, order=order)
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if solutions is not None:
        written = write_solutions(out, prompts, ids, rates, folder.completions(), at_most=solutions)
        console.print(f"{out}: {written} worked answers of {len(ids)} prompts")
        model = folder.settings["model"]
        asked = {"data": out, "answer_column": "solution", "key_column": "key", "model": model}
        console.print(shlex.join(["curro", "sft", *flags_of(asked)]))
        return
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

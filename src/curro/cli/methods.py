"""`curro methods`: what a curriculum can be made of."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from curro import registry
from curro.cli.terminal import plain_console
from curro.errors import ConfigError
from curro.messages import did_you_mean
from curro.method_summaries import summarise

KINDS = {
    "selection": "Selection: which prompts are rolled out next",
    "allocation": "Allocation: how many rollouts each prompt gets",
    "admission": "Admission: which finished groups enter the update",
    "advantage": "Advantage: how each rollout is credited",
    "predictor": "Predictor: what is expected of a prompt before it is rolled out",
}
"""In the order in which a training step asks for them."""


def methods(
    kind: Annotated[
        str | None, typer.Argument(help=f"List one kind only: {', '.join(KINDS)}. [default: all]")
    ] = None,
) -> None:
    """List the methods that a curriculum can be made of.

    Each has a line that says what it does and a line that says which paper it comes from.
    """
    kinds = [name for name in KINDS if name in registry.BUILTIN]
    if kind is not None and kind not in kinds:
        raise ConfigError(
            f"there is no kind of method {kind!r}{did_you_mean(kind, kinds)}; there are: {', '.join(kinds)}"
        )
    console = plain_console()
    for one in kinds if kind is None else [kind]:
        table = Table(title=KINDS[one], title_justify="left", box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, place in registry.BUILTIN[one].items():
            summary = summarise(place)
            table.add_row(name, summary.does)
            table.add_row("", summary.source, style="dim")
        console.print(table)
        console.print()

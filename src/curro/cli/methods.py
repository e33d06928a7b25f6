"""`curro methods`: what a curriculum can be made of."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from curro import registry
from curro.cli.terminal import plain_console
from curro.errors import ConfigError
from curro.text import did_you_mean

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Summary:
    """A method in brief.

    Attributes:
        does: the first sentence of its docstring.
        source: where the method comes from: the docstring's line `Source: ...`.
    """

    does: str
    source: str


def summarise(place: str) -> Summary:
    """The summary of `module:name`, a class or function of curro's.

    Raises:
        LookupError: it has no docstring.
    """
    module, _, name = place.partition(":")
    text = inspect.cleandoc(_docstring(module, name))
    paragraph = " ".join(text.partition("\n\n")[0].split())
    source = re.search(r"^Source: (.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return Summary(
        does=re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0],
        source=" ".join(source[1].split()) if source else "",
    )


def _docstring(module: str, name: str) -> str:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            found = ast.get_docstring(node)
            if found:
                return found
        if isinstance(node, ast.ImportFrom) and node.module and name in {one.name for one in node.names}:
            return _docstring(node.module, name)
    raise LookupError(f"{module}:{name} has no docstring")


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

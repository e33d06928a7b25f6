"""`curro methods`: what a curriculum can be made of, and the rewards."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from curro.cli.terminal import plain_console
from curro.core import registry
from curro.core.errors import ConfigError
from curro.core.loading import load_object
from curro.core.text import did_you_mean

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Summary:
    """The first sentence of a method's docstring, and its line `Source: ...`."""

    does: str
    source: str


def summarise(address: str) -> Summary:
    """Summarise `module:name`, a class or function of curro's, which is not imported."""
    module, _, name = address.partition(":")
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
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.ImportFrom) and name in {imported.name for imported in node.names}:
            return _docstring(node.module or "", name)
    raise LookupError(f"{module}:{name} is not there")


KINDS = {
    "selection": "Selection: which prompts are rolled out next",
    "allocation": "Allocation: how many rollouts each prompt gets",
    "admission": "Admission: which finished groups enter the update",
    "advantage": "Advantage: how each rollout is credited",
    "predictor": "Predictor: what is expected of a prompt before it is rolled out",
    "reward": "Reward: what a completion scores",
}
"""In the order in which a training step asks for them, and the rewards."""

METHODS = {**registry.BUILTIN, "reward": registry.REWARDS}
"""The addresses of the methods by kind and name, and of the rewards."""

_FLAGS = {name: f"--{name} " for name in KINDS} | {"selection": "--curriculum ", "predictor": ""}


def methods(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND or NAME",
            help=f"List one kind only: {', '.join(KINDS)}; or the NAME of a method or reward, to show its "
            "options. [default: all]",
        ),
    ] = None,
) -> None:
    """List all methods and rewards, or the options of one.

    Each has a line that says what it does and a line that says which paper it comes from. With the name of
    a method or a reward, its description, its options and their defaults are shown.
    """
    console = plain_console()
    named = [name for name in KINDS if kind in METHODS[name]]
    if kind is not None and named:
        for shown_kind in named:
            console.print(_described(shown_kind, kind), soft_wrap=True)
        return
    if kind is not None and kind not in KINDS:
        names = [name for methods in METHODS.values() for name in methods]
        raise ConfigError(
            f"there is no method, reward or kind of them {kind!r}{did_you_mean(kind, [*KINDS, *names])}; "
            f"the kinds are: {', '.join(KINDS)}"
        )
    for shown_kind in KINDS if kind is None else [kind]:
        table = Table(
            title=KINDS[shown_kind], title_justify="left", box=None, show_header=False, pad_edge=False
        )
        table.add_column(no_wrap=True)
        table.add_column()
        for name, address in METHODS[shown_kind].items():
            summary = summarise(address)
            table.add_row(name, summary.does)
            table.add_row("", summary.source, style="dim")
        console.print(table)
        console.print()


def _described(kind: str, name: str) -> Text:
    """Show how a method is typed with all its options, and its docstring."""
    address = METHODS[kind][name]
    method = load_object(address, address.partition(":")[2])
    is_plain = kind == "reward" and not isinstance(method, type)
    options = {} if is_plain else inspect.signature(method).parameters
    typed = [
        f"{option}={_typed(item.default, option)}"
        for option, item in options.items()
        if item.kind is not item.VAR_KEYWORD
    ]
    text = Text(f"{name}, a {'reward' if kind == 'reward' else f'method of {kind}'}\n", style="bold")
    text.append(f"{_FLAGS[kind]}{name}{':' if typed else ''}{','.join(typed)}\n\n", style="blue")
    return text.append(f"{inspect.getdoc(method)}\n", style="none")


def _typed(default: Any, name: str) -> str:
    """A default as the command line takes it; the option's name where it has none."""
    if default is inspect.Parameter.empty:
        return name.upper()
    return str(default).lower() if default is None or isinstance(default, bool) else str(default)

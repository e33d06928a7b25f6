"""`curro methods`: what a curriculum can be made of, and the rewards."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
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
    """A method in brief.

    Attributes:
        does: the first sentence of its docstring.
        source: where the method comes from: the docstring's line `Source: ...`.
    """

    does: str
    source: str


def summarise(address: str) -> Summary:
    """The summary of `module:name`, a class or function of curro's."""
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
            docstring = ast.get_docstring(node)
            if docstring:
                return docstring
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and name in {imported.name for imported in node.names}
        ):
            return _docstring(node.module, name)
    raise LookupError(f"{module}:{name} has no docstring")


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
"""The addresses of the methods by kind and name, and those of the rewards."""


@dataclass(frozen=True)
class MethodOption:
    """An option of a method: its name, its default as it is typed, and what it does."""

    name: str
    default: str
    meaning: str


def options_of(address: str) -> list[MethodOption]:
    """The options of `module:name`, from its signature and its docstring."""
    method = load_object(address, address.partition(":")[2])
    if address in registry.REWARDS.values() and not isinstance(method, type):
        return []
    meanings = _meanings(inspect.getdoc(method) or "")
    return [
        MethodOption(
            item.name, _typed(item.default), _in_full(method, item.name, meanings.get(item.name, ""))
        )
        for item in inspect.signature(method).parameters.values()
        if item.kind is not item.VAR_KEYWORD
    ]


def _in_full(method: Any, name: str, meaning: str) -> str:
    """What an option means, where its docstring refers to another method's option of that name."""
    other = re.fullmatch(r"(?:as )?of (?:the predictor )?`(\w+)`\.", meaning)
    addresses = [address for kind in registry.BUILTIN.values() for address in kind.values()]
    near = getattr(inspect.getmodule(method), other[1], None) if other else None
    far = next((address for address in addresses if other and address.endswith(f":{other[1]}")), None)
    if near is None and far is not None and other is not None:
        near = load_object(far, other[1])
    return meaning if near is None else _meanings(inspect.getdoc(near) or "").get(name, meaning)


def _typed(default: Any) -> str:
    """A default as the command line takes it."""
    if default is inspect.Parameter.empty:
        return "needed"
    if default is None or isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, int | float | str) else "-"


def _meanings(docstring: str) -> dict[str, str]:
    """What the section Args says of each name; of names that stand together the same of all."""
    _, _, section = docstring.partition("Args:\n")
    meanings: dict[str, str] = {}
    for block in re.split(r"\n(?= {4}\S)", "\n" + section.partition("\n\n")[0]):
        names, _, meaning = block.strip().partition(": ")
        for name in names.split(", "):
            meanings[name.strip("*`")] = " ".join(meaning.split())
    return meanings


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
    a method or a reward its options, and their defaults are shown.
    """
    console = plain_console()
    named = [name for name in KINDS if kind in METHODS[name]]
    if kind is not None and kind not in KINDS:
        if not named:
            names = [name for methods in METHODS.values() for name in methods]
            raise ConfigError(
                f"there is no method, reward or kind of them {kind!r}{did_you_mean(kind, [*KINDS, *names])}; "
                f"the kinds are: {', '.join(KINDS)}"
            )
        for shown_kind in named:
            console.print(_described(shown_kind, kind))
        return
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


def _described(kind: str, name: str) -> Group:
    """What a method does, and its options with their defaults."""
    address = METHODS[kind][name]
    summary, options = summarise(address), options_of(address)
    head = Text(f"{name}, a {'reward' if kind == 'reward' else f'method of {kind}'}\n{summary.does}")
    head.append(f"\n{summary.source}" if summary.source else "", style="dim")
    table = Table(box=None, pad_edge=False)
    for title in ("option", "default", "meaning"):
        table.add_column(title)
    for option in options:
        table.add_row(option.name, option.default, Text(option.meaning))
    needed = [f"{option.name}={option.name.upper()}" for option in options if option.default == "needed"]
    usual = [f"{o.name}={o.default}" for o in options if o.default not in ("needed", "none", "-")][:1]
    example = f"{name}:{','.join(needed or usual)}" if needed or usual else name
    flag = "" if kind == "predictor" else f"as it is typed: --{_FLAGS[kind]} {example}\n"
    shown = table if options else Text("It has no options.")
    return Group(head, shown, Text(flag))


_FLAGS = {name: name for name in KINDS} | {"selection": "curriculum"}

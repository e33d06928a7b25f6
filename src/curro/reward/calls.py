"""Function calls in what a model wrote: read as syntax, with literal arguments, and never evaluated."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 20_000
"""Characters of a text that is read."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        name: with its dots.
        positional: the values of arguments without a name.
        named: those of the others.
    """

    name: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


def parse_calls(text: str) -> list[Call] | None:
    """The calls of a text that holds nothing else: `[f(a=1), g.h("x")]`, with or without the brackets.

    A thought before `</think>` and a fence of backticks around the calls are left out.

    Returns:
        the calls in their order, possibly none (`[]`); None for any other text: prose, an argument that is
        no literal, unpacking.
    """
    text = text.rpartition("</think>")[2].strip()
    if text.startswith("```"):
        text = text.partition("\n")[2]
    text = text.strip("`\n ")
    if not text or len(text) > _LONGEST:
        return None
    text = ("" if text.startswith("[") else "[") + text + ("" if text.endswith("]") else "]")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in the model's strings
            tree = ast.parse(text, mode="eval").body
            return [_call(item) for item in tree.elts] if isinstance(tree, ast.List) else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise ValueError("unpacking, or one name twice")
        named[keyword.arg] = ast.literal_eval(keyword.value)
    return Call(_name(node.func), tuple(ast.literal_eval(value) for value in node.args), named)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError("no name of a function")

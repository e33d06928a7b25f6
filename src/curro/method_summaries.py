"""What a method's docstring says in brief, read from its file: importing all methods would take seconds."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parent


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

"""The options of every command as a page of Markdown tables; `make docs` puts it into the site.

python -m curro.cli.reference docs/options.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

from curro.cli import COMMANDS, make_app

_DEFAULT = re.compile(r"\s*\[default: (.*)\]$", re.DOTALL)


HEAD = """# Options

All options of all commands; `curro COMMAND --help` shows the same. [Commands](commands.md) has examples.
"""


def render() -> str:
    """The page: a heading and a table for each command."""
    commands: dict[str, Any] = typer.main.get_command(make_app(COMMANDS)).commands  # type: ignore[attr-defined]
    of_train = {(item.name, item.help) for item in commands["train"].params}
    parts = [
        f"## curro {name}\n\n{_table(command, set() if name == 'train' else of_train)}"
        for name, command in commands.items()
    ]
    return "\n".join([HEAD, *parts])


def _table(command: Any, shared: set[tuple[str, str]]) -> str:
    """A row for each option; those that `curro train` has too share the last one."""
    lines, as_in_train = ["| option | default | meaning |", "|---|---|---|"], []
    for item in command.params:
        if item.name == "help":
            continue
        names = (
            ", ".join(f"`{option}`" for option in item.opts) if item.opts[0][0] == "-" else f"`{item.name}`"
        )
        if (item.name, item.help) in shared:
            as_in_train.append(names)
        else:
            meaning, default = _parted(item)
            lines.append(f"| {names} | {_cell(default)} | {_cell(meaning)} |")
    if as_in_train:
        lines.append(f"| {', '.join(as_in_train)} | | as in `curro train` |")
    return "\n".join(lines) + "\n"


def _parted(item: Any) -> tuple[str, str]:
    """The help text without the default, and the default in words."""
    text = item.help or ""
    match = _DEFAULT.search(text)
    if match:
        return text[: match.start()], match[1]
    plain = item.default is None or isinstance(item.default, bool)
    return text, "" if plain else f"{item.default:g}" if isinstance(item.default, float) else str(
        item.default
    )


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")

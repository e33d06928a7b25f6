"""Words for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def did_you_mean(wrong: str, right: Iterable[str]) -> str:
    """` (did you mean 'uniform'?)` with the nearest of the right names; nothing where none is near."""
    close = difflib.get_close_matches(wrong, list(right), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def printable(text: str) -> str:
    """Text on one line: what would move a cursor or turn a line around is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


WIDTH = 80
"""Characters of a cell that are shown."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as a notebook shows it."""
    head = "".join(f"<th>{_cell(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    caption = f"<caption>{_cell(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else printable(str(value)[: 2 * WIDTH])
    return escape(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")

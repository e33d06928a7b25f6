"""Small tables for notebooks; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from curro.messages import printable

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

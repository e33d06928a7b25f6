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


def readable(text: str, width: int) -> str:
    """Text as `printable` gives it, cut to `width` characters."""
    line = printable(text[: 2 * width])
    return line if len(line) <= width else line[: width - 1] + "…"


PREVIEW = 80
"""Characters of a prompt that stand for it in tables and run folders."""


def preview(prompt: Any) -> str:
    """The beginning of a prompt on one line: of a conversation, of what is not the system's."""
    if isinstance(prompt, list):
        messages = [message for message in prompt if isinstance(message, dict)]
        prompt = "\n".join(
            str(m.get("content", ""))[: 8 * PREVIEW] for m in messages if m.get("role") != "system"
        )
    return "" if prompt is None else readable(" ".join(str(prompt)[: 8 * PREVIEW].split()), PREVIEW)


def abbreviated(identity: Any) -> Any:
    """The first eight digits of a fingerprint of 64, which are enough to see a difference; else unchanged."""
    is_long = isinstance(identity, str) and len(identity) == 64 and set(identity) <= set("0123456789abcdef")
    return identity[:8] if is_long else identity


def slug(text: str) -> str:
    """The letters and digits of a text, with a hyphen in place of everything between them."""
    return "".join(letter if letter.isalnum() else "-" for letter in text).strip("-")


WIDTH = 80
"""Characters of a cell that are shown."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as a notebook shows it."""
    head = "".join(f"<th>{_cell(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    caption = f"<caption>{_cell(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return escape(f"{value:.4g}" if isinstance(value, float) else readable(str(value), WIDTH))

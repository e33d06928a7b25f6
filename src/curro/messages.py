"""Words for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: str, right: Iterable[str]) -> str:
    """` (did you mean 'uniform'?)` with the nearest of the right names; nothing where none is near."""
    close = difflib.get_close_matches(wrong, list(right), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def printable(text: str) -> str:
    """Text on one line: what would move a cursor or turn a line around is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

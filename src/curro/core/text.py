"""Words for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def did_you_mean(wrong: str, right: Iterable[str]) -> str:
    """` (did you mean 'uniform'?)` with the nearest of the right names; nothing if none is near."""
    close = difflib.get_close_matches(wrong, list(right), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def install_extra(name: str) -> str:
    """How to install what one of curro's extras needs; no package of curro's name is published."""
    return f"install curro's extra {name}: pip install -e '.[{name}]' in its checkout"


def printable(text: str) -> str:
    """Text on one line: what would move a cursor or turn a line around is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def readable(text: str, width: int) -> str:
    """Text as `printable` gives it, cut to `width` characters."""
    line = printable(text[: 2 * width])
    return line if len(line) <= width else line[: width - 1] + "…"


PREVIEW = 80
"""Characters of a prompt that stand for it in tables and run folders."""


def prompt_text(prompt: Any, separator: str = "\n", *, with_system: bool = False) -> str:
    """The text of a row's prompt: of a conversation, its messages without their roles.

    Messages come in a list, or as Parquet has them in an array; what else is in it is left out.
    """
    if isinstance(prompt, str) or not _is_sequence(prompt):
        return "" if prompt is None else str(prompt)
    messages = [message for message in prompt if isinstance(message, Mapping)]
    return separator.join(
        content_text(message.get("content"))
        for message in messages
        if with_system or message.get("role") != "system"
    )


def content_text(content: Any) -> str:
    """The text of a message's content; where that is a list of parts, a line for each part that is text."""
    if isinstance(content, str):
        return content
    if _is_sequence(content):
        return "\n".join(
            str(part["text"]) for part in content if isinstance(part, Mapping) and part.get("type") == "text"
        )
    return "" if content is None else str(content)


def _is_sequence(value: Any) -> bool:
    return not isinstance(value, str | bytes | Mapping) and isinstance(value, Iterable)


def preview(prompt: Any) -> str:
    """The beginning of a prompt on one line: of a conversation, of what is not the system's."""
    return readable(" ".join(prompt_text(prompt)[: 8 * PREVIEW].split()), PREVIEW)


def abbreviated(identity: Any) -> Any:
    """The first eight digits of a fingerprint of 64, which are enough to see a difference; else unchanged."""
    is_long = isinstance(identity, str) and len(identity) == 64 and set(identity) <= set("0123456789abcdef")
    return identity[:8] if is_long else identity


def slug(text: str) -> str:
    """The letters and digits of a text, with a hyphen in place of everything between them."""
    return "".join(letter if letter.isalnum() else "-" for letter in text).strip("-")

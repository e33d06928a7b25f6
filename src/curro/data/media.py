"""Rows that hold more than text: images, video or sound, in columns of their own or in messages."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

MEDIA = re.compile(r"(^|_)(image|video|audio|multi_modal)s?(_|\d|$)", re.IGNORECASE)
"""The names of columns in which data sets keep what a text model cannot read."""


def first_media(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> tuple[int, list[str]] | None:
    """The number of the first row with more than text and the kinds that it has; None if there is none.

    Args:
        columns: of the rows.
    """
    media = [name for name in columns if MEDIA.search(name)]
    for number, row in enumerate(rows):
        kinds = [name for name in media if _is_media(row.get(name), name)]
        if isinstance(row["prompt"], list):
            contents = [message.get("content") for message in row["prompt"] if isinstance(message, Mapping)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            kinds += [str(part.get("type")) for part in parts if part.get("type", "text") != "text"]
        if kinds:
            return number, list(dict.fromkeys(kinds))
    return None


def _is_media(value: Any, column: str) -> bool:
    if isinstance(value, str):  # a path or an address; other texts are only called so
        kind = (mimetypes.guess_type(value)[0] or "").partition("/")[0]
        is_address = value.startswith(("http://", "https://", "data:"))
        return kind in ("image", "video", "audio") or (is_address and "_" not in column)
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return any(_is_media(part, column) for part in inner)
    is_number = isinstance(value, int | float)
    return value is not None and (not is_number or "_" not in column)

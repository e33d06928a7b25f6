"""Rows that hold more than text: images, video or sound, in columns of their own or in messages."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

MEDIA = re.compile(
    r"(^|_)(image|img|picture|photo|figure|screenshot|video|audio|sound|speech|multi_modal)s?(_|\d|$)",
    re.IGNORECASE,
)
"""The names of columns in which data sets keep what a text model cannot read."""


def first_media(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> tuple[int, list[str]] | None:
    """The number of the first row with more than text and the kinds that it has; None if there is none.

    Args:
        columns: of the rows.
    """
    media = [name for name in columns if MEDIA.search(name)]
    for number, row in enumerate(rows):
        values = {name: row.get(name) for name in columns}
        kinds = [
            name for name in media if not isinstance(values[name], int) and _is_media(values[name], name)
        ]
        kinds += [name for name, value in values.items() if _is_file(value)]
        if isinstance(row["prompt"], list):
            contents = [message.get("content") for message in row["prompt"] if isinstance(message, Mapping)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            kinds += [kind for part in parts if isinstance(part, Mapping) and (kind := _kind(part)) != "text"]
        if kinds:
            return number, list(dict.fromkeys(kinds))
    return None


def _kind(part: Mapping[str, Any]) -> str:
    """What a message's part is; some have no type and their content under the name of the kind."""
    named = (name for name in ("image", "image_url", "video", "audio") if part.get(name) is not None)
    return str(part.get("type") or next(named, "text"))


_IN_BASE64 = re.compile(r"[A-Za-z0-9+/]{60}[A-Za-z0-9+/\s]*=*\s*")


def _is_file(value: Any) -> bool:
    """Whether a value is a picture or a sound as `datasets` stores it, whatever the column's name."""
    if isinstance(value, list):
        return any(map(_is_file, value))
    names = value.keys() if isinstance(value, dict) else set()
    is_stored = names == {"bytes", "path"} or names >= {"array", "sampling_rate"}
    return is_stored and any(part is not None for part in value.values())


def _is_media(value: Any, column: str) -> bool:
    if isinstance(value, str):  # a path, an address or a whole file; other texts are only called so
        kind = (mimetypes.guess_type(value)[0] or "").partition("/")[0]
        is_address = value.startswith(("http://", "https://", "data:"))
        is_given = is_address or _IN_BASE64.fullmatch(value) is not None
        return kind in ("image", "video", "audio") or (is_given and "_" not in column)
    if isinstance(value, list | dict):
        inner = value.values() if isinstance(value, dict) else value
        return any(_is_media(part, column) for part in inner)
    is_number = isinstance(value, int | float)
    return value is not None and (not is_number or "_" not in column)

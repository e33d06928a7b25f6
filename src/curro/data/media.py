"""Rows that hold more than text: images, video or sound, in columns of their own or in messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

MEDIA = ("image", "images", "video", "videos", "audio", "audios")
"""Columns in which data sets keep what a text model cannot read."""


def first_media(rows: Iterable[Mapping[str, Any]], columns: Collection[str]) -> tuple[int, list[str]] | None:
    """The number of the first row with more than text and the kinds that it has; None if there is none.

    Args:
        columns: of the rows.
    """
    media = [name for name in MEDIA if name in columns]
    for number, row in enumerate(rows):
        kinds = [name for name in media if _is_media(row[name])]
        if isinstance(row["prompt"], list):
            contents = [message.get("content") for message in row["prompt"] if isinstance(message, Mapping)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            kinds += [str(part.get("type")) for part in parts if part.get("type", "text") != "text"]
        if kinds:
            return number, list(dict.fromkeys(kinds))
    return None


def _is_media(value: Any) -> bool:
    if isinstance(value, str):  # a path or an address; other texts are only called so
        return bool(re.search(r"^data:|\.(png|jpe?g|webp|gif|bmp|mp4|webm|wav|mp3|flac)$", value.lower()))
    return value is not None and value != []

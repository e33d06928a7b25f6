"""A row as it was read, and where it stood: what every reader yields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple


class RawRow(NamedTuple):
    """One row of a source.

    `file` is the file's name without its folder (for the hub and the lab, the data set's name), so that keys
    made of it do not change when the data moves.
    """

    file: str
    place: str
    row: dict[str, Any]

    @property
    def where(self) -> str:
        """For messages: `train.jsonl:7`, or `train.parquet, row 7`."""
        return f"{self.file}{self.place}"


Rows = Iterator[RawRow]

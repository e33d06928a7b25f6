"""A row as it was read, and where it stood: what every reader yields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from curro.core.errors import CurroError

Row = dict[str, Any]
"""A row of a data set: its columns by name, among them `prompt`, `answer` and `key`."""


class RawRow(NamedTuple):
    """One row of a source.

    `file` is the file's name without its folder (for the hub and the lab, the data set's name), so that keys
    made of it do not change when the data moves.
    """

    file: str
    position: str
    row: Row

    @property
    def where(self) -> str:
        """For messages: `train.jsonl:7`, or `train.parquet, row 7`."""
        return f"{self.file}{self.position}"


Rows = Iterator[RawRow]


class DataError(CurroError):
    """A data set that cannot be used: says what was wrong, where, and what to do."""


def lab_family(source: str) -> str | None:
    """The family that `lab:NAME[/DIFFICULTY]` names; None for another source."""
    return source.removeprefix("lab:").partition("/")[0] if source.startswith("lab:") else None

"""Files of JSON lines that grow by whole lines, whatever kills their writer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curro.errors import RunError


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add a line for each row; half a line, which a killed process left, is replaced."""
    lines = [encode_row(row) for row in rows]
    with path.open("a+b") as file:
        end = file.tell()
        if end and _byte(file, end - 1) != b"\n":
            while end and _byte(file, end - 1) != b"\n":
                end -= 1
            file.truncate(end)
        file.write(b"".join(lines))


def _byte(file: Any, position: int) -> bytes:
    file.seek(position)
    return file.read(1)


def encode_row(row: Mapping[str, Any]) -> bytes:
    """The line of a row; what is not finite is written as null."""
    return json.dumps({name: _plain(value) for name, value in row.items()}).encode() + b"\n"


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(path: Path, columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line without its end was being written and is left out.

    Raises:
        RunError: a line that is no object, or lacks one of the columns.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    row = decode_row(line)
                except ValueError as error:
                    raise RunError(f"line {number} of {path} is damaged: {error}") from error
                missing = [name for name in columns if name not in row]
                if missing:
                    raise RunError(f"line {number} of {path} is damaged: it has no {missing[0]!r}")
                yield row


def decode_row(line: bytes) -> dict[str, Any]:
    """The row of a line; null comes back as NaN. Raises ValueError for what is no JSON object."""
    return {name: math.nan if value is None else value for name, value in as_object(line).items()}


def as_object(text: bytes) -> dict[str, Any]:
    """JSON that holds an object; raises ValueError for any other."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is no object but {type(value).__name__}")
    return value

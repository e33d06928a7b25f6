"""Files of JSON lines that grow by whole lines, whatever kills their writer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from curro.core.errors import RunError
from curro.core.files import open_regular, open_unlinked, replacing

LONGEST = 1 << 26
"""Bytes of a line; a longer one is damage."""


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add a line for each row; half a line, which a killed process left, is replaced."""
    lines = [encode_row(row) for row in rows]
    with open(path, "a+b", opener=open_unlinked) as file:
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
    for number, line in enumerate(whole_lines(path), 1):
        try:
            row = decode_row(line)
        except ValueError as error:
            raise RunError(f"line {number} of {path} is damaged: {error}") from error
        missing = [name for name in columns if name not in row]
        if missing:
            raise RunError(f"line {number} of {path} is damaged: it has no {missing[0]!r}")
        yield row


def whole_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that may not exist yet, without a last one that is half written."""
    if path.exists():
        with open_regular(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
                if len(line) == LONGEST:
                    raise RunError(f"line {number} of {path} is damaged: it is longer than {LONGEST} bytes")
                if line.endswith(b"\n"):
                    yield line


def decode_row(line: bytes) -> dict[str, Any]:
    """The row of a line; null comes back as NaN. Raises ValueError for what is no JSON object."""
    return {name: math.nan if value is None else value for name, value in as_object(line).items()}


def check_whole(row: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raises RunError for a row that has no whole number under one of these names; `where` begins it."""
    for name in names:
        if name not in row:
            raise RunError(f"{where} is damaged: it has no {name!r}")
        value = row[name]
        if not (type(value) is int or (type(value) is float and value.is_integer())):
            raise RunError(f"{where} is damaged: its {name} is {value!r:.50}, not a whole number")


def as_object(text: bytes) -> dict[str, Any]:
    """JSON that holds an object; raises ValueError for any other."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"it is no object but {type(value).__name__}")
    return value


def read_object(path: Path) -> dict[str, Any]:
    """The object of a JSON file; raises RunError for a damaged one."""
    try:
        with open_regular(path) as file:
            return as_object(file.read(LONGEST))
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def write_object(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file whole."""
    with replacing(path) as part:
        part.write_text(json.dumps(dict(content), indent=2) + "\n", encoding="utf-8")

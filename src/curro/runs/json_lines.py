"""Files of JSON lines that grow by whole lines, whatever kills their writer."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from curro.core.errors import RunError
from curro.core.files import is_number, open_regular, open_unlinked

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
        RunError: a line that is not an object, or lacks one of the columns.
    """
    if not path.exists():
        return
    with open_regular(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
            if len(line) == LONGEST:
                raise RunError(f"line {number} of {path} is damaged: it is longer than {LONGEST} bytes")
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
    """The row of a line; null comes back as NaN. Raises ValueError for anything but a JSON object."""
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


BLOCK = 1 << 23
"""Bytes that are read at a time, unless one line is longer."""

_MARK = 64
"""Bytes before the place where reading stopped; they still stand there in a file that only grew."""


@dataclass(frozen=True)
class Block:
    """Whole lines.

    Attributes:
        data: their bytes; empty if there is nothing new.
        start: where in the file they begin. 0 says that the file is new, or was written anew: what was read
            before is to be forgotten.
        left: bytes of the file after them.
    """

    data: bytes
    start: int
    left: int


class GrowingFile:
    """Gives every whole line of a file once; a half-written last line waits for its end.

    A file that was written anew or cut short is read again from its start: a run that is resumed writes its
    last steps again.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self._inode, self._mark = 0, b""

    def read(self, most: int = BLOCK) -> Block:
        """The next lines, of about `most` bytes at most; a line that is longer comes whole."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            self.offset, self._mark = 0, b""
            return Block(b"", 0, 0)
        with file:
            stat = os.fstat(file.fileno())
            file.seek(self.offset - len(self._mark))
            if stat.st_ino != self._inode or file.read(len(self._mark)) != self._mark:
                self.offset, self._mark, self._inode = 0, b"", stat.st_ino
            start = file.seek(self.offset)
            data = more = file.read(most)
            while more and b"\n" not in data:
                if len(data) >= LONGEST:
                    raise RunError(f"{self.path} is damaged: a line is longer than {LONGEST} bytes")
                more = file.read(most)
                data += more
        data = data[: data.rfind(b"\n") + 1]
        self.offset += len(data)
        self._mark = (self._mark + data[-_MARK:])[-_MARK:]
        return Block(data, start, stat.st_size - self.offset)


def line_starts(block: Block) -> np.ndarray:
    """Where in the file each line of a block begins, int64 (L,)."""
    ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10)
    return block.start + np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)


def parse_columns(
    block: Block, path: Path, types: Mapping[str, pa.DataType] | None = None, required: tuple[str, ...] = ()
) -> pa.Table:
    """The lines of a block as columns.

    Args:
        path: the file's, for messages.
        types: of the columns to read; others are passed over. None: all of them, with their own types.
        required: columns in which every line has a whole number.

    Raises:
        RunError: a damaged line; the message says which.
    """
    schema = None if types is None else pa.schema(list(types.items()))
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(block.data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="infer" if types is None else "ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise _damage(path, required, str(error)) from error
    for name in required:
        if name not in table.column_names or table[name].null_count or not is_number(table[name].type):
            raise _damage(path, required, f"a line has no whole number as its {name}")
    return table


def _damage(path: Path, required: tuple[str, ...], otherwise: str) -> RunError:
    """What is wrong with the first damaged line, found line by line."""
    try:
        for number, row in enumerate(read_rows(path), 1):
            check_whole(row, required, f"line {number} of {path}")
    except RunError as error:
        return error
    return RunError(f"{path} is damaged: {otherwise}")

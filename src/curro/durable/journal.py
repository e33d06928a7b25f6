"""A file that only grows, record by record, each with a checksum that covers all records before it.

    4 bytes   the record's length, little-endian
    4 bytes   CRC-32 of the length, continued from the record before
    4 bytes   CRC-32 of the record, continued from the record before
    record

A process that is killed while it writes leaves the beginning of a record at the end of the file, and a power
cut may leave zeros or a wrong last record there: that is cut off when the journal is read. Any other
difference, such as a record that is changed, missing or out of order, is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from curro.core.errors import CheckpointError
from curro.core.files import open_unlinked

_HEAD = struct.Struct("<III")

_MOST_ZEROS = 1 << 26
"""Bytes of zeros that a power cut may leave at the end; a hole takes no space, and may have any number."""


class Journal:
    """Records of bytes; they are read once, by `replay`, and then appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = FileIO(path, "a+", opener=open_unlinked)
        self._check, self.size, self._replayed = 0, 0, False

    def replay(self) -> Iterator[bytes]:
        """Every record, in order; the beginning of one that was being written is cut off.

        Raises:
            CheckpointError: the file is damaged.
        """
        with self.path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(0)
            while self.size < end:
                record = self._next(file.read(_HEAD.size), end - self.size - _HEAD.size, file.read)
                if record is None:
                    break
                yield record
        self._file.truncate(self.size)
        self._replayed = True

    def _next(self, head: bytes, left: int, read: Callable[[int], bytes]) -> bytes | None:
        """The next record; None where it was not written to its end."""
        if left < 0:
            return None
        length, check_length, check = _HEAD.unpack(head)
        if zlib.crc32(head[:4], self._check) != check_length:
            if not any(head) and left <= _MOST_ZEROS and not read(left).strip(b"\0"):
                return None  # a power cut leaves zeros where the file had been made longer
            raise self._damaged()
        if length > left:
            return None
        record = read(length)
        if zlib.crc32(record, self._check) != check:
            if length == left:
                return None
            raise self._damaged()
        self._check = check
        self.size += _HEAD.size + length
        return record

    def _damaged(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is damaged at byte {self.size}, and what follows cannot be trusted: go on from a "
            "checkpoint, or move the folder away to begin anew"
        )

    def append(self, record: bytes) -> None:
        """Add a record; when this returns, the operating system has it.

        Raises:
            OSError: it could not be written, and the file is as it was.
        """
        assert self._replayed, "a journal is replayed before it grows"
        length = _HEAD.pack(len(record), 0, 0)[:4]
        check = zlib.crc32(record, self._check)
        head = _HEAD.pack(len(record), zlib.crc32(length, self._check), check)
        whole = memoryview(head + record)
        try:
            while whole:
                whole = whole[self._file.write(whole) :]
        except OSError:
            self._file.truncate(self.size)
            raise
        self._check = check
        self.size += _HEAD.size + len(record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

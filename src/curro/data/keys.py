"""Keys of prompts that are known to be unique, without a Python object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


class UniqueKeys(Sequence[str]):
    """N distinct keys; a key is made when it is asked for."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        places = range(self._count)[index]
        return [self._key(place) for place in places] if isinstance(places, range) else self._key(places)

    def _key(self, place: int) -> str:
        raise NotImplementedError

    def to_arrow(self) -> pa.Array | pa.ChunkedArray:
        """All of them as texts."""
        raise NotImplementedError


class RowNumbers(UniqueKeys):
    """The numbers of the rows, of a data set without keys."""

    def _key(self, place: int) -> str:
        return str(place)

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        return pa.array(np.arange(len(self))).cast(pa.string())


class HashKeys(UniqueKeys):
    """128 bits of each row, as 32 hex digits.

    Args:
        hashes: uint8 (N, 16).
    """

    def __init__(self, hashes: np.ndarray) -> None:
        super().__init__(len(hashes))
        self._hashes = hashes

    def _key(self, place: int) -> str:
        return self._hashes[place].tobytes().hex()

    def to_arrow(self) -> pa.Array:
        import pyarrow as pa

        digits, ends = self._hashes.tobytes().hex().encode(), np.arange(0, 32 * len(self) + 1, 32)
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(ends), pa.py_buffer(digits))

    def are_distinct(self) -> bool:
        """Whether no two rows have the same hash."""
        halves = np.sort(self._hashes.view(np.uint64)[:, 0])
        twice = halves[1:][halves[1:] == halves[:-1]]
        if not len(twice):
            return True
        rows = np.flatnonzero(np.isin(self._hashes.view(np.uint64)[:, 0], twice))
        return len({self._key(row) for row in rows.tolist()}) == len(rows)


class ColumnKeys(UniqueKeys):
    """A column of distinct texts."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        super().__init__(len(column))
        self._column = column

    def _key(self, place: int) -> str:
        return self._column[place].as_py()

    def to_arrow(self) -> pa.ChunkedArray:
        return self._column

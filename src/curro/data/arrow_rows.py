"""The rows of an Arrow table as prompts: a row becomes a Python object when it is asked for.

A data set that is any way unusual is left to `curro.data.columns`, which reads every row and says what is
wrong with which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from curro.core.identity import (
    ANSWER,
    answer_of,
    fingerprint_line,
    value_at,
)
from curro.data.columns import PROMPT
from curro.data.raw import Row

if TYPE_CHECKING:
    import pyarrow as pa


BATCH = 8192
"""Rows that are Python objects at a time while a table is read through."""


class ArrowRows(Sequence[Row]):
    """N rows with `prompt`, `answer` and `key` besides the table's own columns; prompts are texts.

    Args:
        table: N rows.
        prompt, answer: the columns that hold them; dots reach into nested columns.
        keys, fingerprint, row_digests: of the rows, as `DatasetRows` has them.
    """

    def __init__(
        self,
        table: pa.Table,
        prompt: str,
        answer: str | None,
        keys: list[str],
        fingerprint: str,
        row_digests: np.ndarray,
    ) -> None:
        self.table, self.keys, self.fingerprint, self.row_digests = table, keys, fingerprint, row_digests
        self._prompt, self._answer = prompt, answer

    def __len__(self) -> int:
        return self.table.num_rows

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self._row(number, self.table.slice(number, 1).to_pylist()[0]) for number in numbers]
        return self._row(numbers, self.table.slice(numbers, 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self), BATCH):
            for number, row in enumerate(self.table.slice(start, BATCH).to_pylist(), start):
                yield self._row(number, row)

    def _row(self, number: int, row: Row) -> Row:
        columns = {"prompt": value_at(row, self._prompt), "answer": answer_of(row, self._answer)}
        return {**row, **columns, "key": self.keys[number]}

    @property
    def columns(self) -> list[str]:
        """The names that every row has."""
        return list(dict.fromkeys([*self.table.column_names, "prompt", "answer", "key"]))

    def values(self, column: str) -> list[Any]:
        """The N values of a column of the table's own; None if there is no such column."""
        values = column_of(self.table, column)
        return [None] * len(self) if values is None else values.to_pylist()

    def with_column(self, name: str, values: Sequence[Any]) -> ArrowRows:
        """The rows with this column, in place of any of that name."""
        import pyarrow as pa

        table = self.table.drop_columns([name]) if name in self.table.column_names else self.table
        table = table.append_column(name, pa.array(values))
        return ArrowRows(table, self._prompt, self._answer, self.keys, self.fingerprint, self.row_digests)

    def to_arrow(self) -> pa.Table:
        """The table with the columns `prompt`, `answer` and `key`."""
        import pyarrow as pa

        prompts, answers = column_of(self.table, self._prompt), _answers(self.table, self._answer)
        added = {"prompt": prompts, "answer": answers, "key": pa.array(self.keys, pa.string())}
        columns = {name: self.table.column(name) for name in self.table.column_names}
        return pa.table(columns | added)


def has_cut_names(kind: pa.DataType) -> bool:
    """Whether a name inside an Arrow type holds a zero character, where other libraries take it to end."""
    inner = [kind.field(i) for i in range(kind.num_fields)]
    return any("\0" in field.name or has_cut_names(field.type) for field in inner)


def arrow_rows(
    table: pa.Table, *, prompt: str | None, answer: str | None, key: str | None
) -> ArrowRows | None:
    """The rows of a table whose prompts are texts; None where it is to be read row by row.

    Args:
        table: N rows.
        prompt, answer, key: the columns to take, by name; None for the conventions of `curro.data.columns`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if has_cut_names(pa.struct(list(table.schema))):
        return None
    prompt = prompt or _first(table, PROMPT)
    texts = None if prompt is None else column_of(table, prompt)
    if prompt is None or texts is None or not len(texts) or not _is_text(texts.type) or texts.null_count:
        return None
    if pc.any(pc.equal(pc.utf8_trim_whitespace(texts), "")).as_py():
        return None
    if answer is not None and column_of(table, answer) is None:
        return None
    answer = answer or _first(table, ANSWER)
    answers = _answers(table, answer)
    key = key or ("key" if "key" in table.column_names else None)
    if key is None and {"data_source", "extra_info"} <= set(table.column_names):
        return None  # verl's, whose keys are made of the files' names
    named = None if key is None else column_of(table, key)
    if key is not None and (named is None or not _is_text(named.type) or named.null_count):
        return None
    fingerprint, hashes = _read_through(texts, answers)
    row_digests = np.ascontiguousarray(hashes[:, :8]).view("<u8")[:, 0]
    if named is not None:
        empty = pc.any(pc.equal(named, "")).as_py()
        if empty or pc.count_distinct(named).as_py() != len(named):
            return None
        return ArrowRows(table, prompt, answer, named.to_pylist(), fingerprint, row_digests)
    keys = [row.tobytes().hex() for row in hashes]
    return (
        ArrowRows(table, prompt, answer, keys, fingerprint, row_digests)
        if len(set(keys)) == len(keys)
        else None
    )


def _read_through(texts: pa.ChunkedArray, answers: pa.ChunkedArray) -> tuple[str, np.ndarray]:
    """The fingerprint of the data set, and a hash of each row, uint8 (N, 16); in one pass."""
    digest = hashlib.sha256()
    hashes = np.empty((len(texts), 16), np.uint8)
    for start in range(0, len(texts), BATCH):
        pairs = zip(
            texts.slice(start, BATCH).to_pylist(), answers.slice(start, BATCH).to_pylist(), strict=True
        )
        lines = [fingerprint_line(text, answer) for text, answer in pairs]
        digest.update(b"".join(lines))
        digests = b"".join(hashlib.sha256(line[:-1]).digest()[:16] for line in lines)
        hashes[start : start + len(lines)] = np.frombuffer(digests, np.uint8).reshape(-1, 16)
    return digest.hexdigest(), hashes


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """A column; `a.b` is b of the nested column a. None if there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name in table.column_names:
        return table.column(name)
    outer, *way = name.split(".")
    if not way or outer not in table.column_names:
        return None
    kind = table.schema.field(outer).type
    for part in way:
        if not pa.types.is_struct(kind) or kind.get_field_index(part) < 0:
            return None
        kind = kind.field(part).type
    return pc.struct_field(table.column(outer), way)


def _first(table: pa.Table, names: tuple[str, ...]) -> str | None:
    """The first of these columns that has a value in some row."""
    for name in names:
        column = column_of(table, name)
        if column is not None and column.null_count < len(column):
            return name
    return None


def _answers(table: pa.Table, name: str | None) -> pa.ChunkedArray:
    """The answers as texts, null if there is none."""
    import pyarrow as pa

    if name is None:
        return pa.chunked_array([pa.nulls(table.num_rows, pa.string())])
    column = column_of(table, name)
    assert column is not None
    if _is_text(column.type):
        return column
    texts = [
        pa.array(
            [answer_of({name: value}, name) for value in column.slice(start, BATCH).to_pylist()], pa.string()
        )
        for start in range(0, len(column), BATCH)
    ]
    return pa.chunked_array(texts)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def parquet_table(files: Sequence[Path]) -> pa.Table | None:
    """The rows of Parquet files one after the other; None for other files, or columns that differ."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files or any(file.suffix != ".parquet" for file in files):
        return None
    try:
        table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        table.validate(full=True)  # or texts that are no UTF-8 would be found when they are asked for
        return table
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None  # reading row by row says which file is wrong


def dataset_table(dataset: Any) -> pa.Table | None:
    """The Arrow table under a `datasets.Dataset`, as it was mapped from the disk.

    None where rows are something else than the table's: rows that were chosen or shuffled, and columns that
    are decoded, as images are.
    """
    import datasets
    import pyarrow as pa

    if not isinstance(dataset, datasets.Dataset):
        return None
    if dataset._indices is not None or dataset.format["type"] is not None:
        return None
    table = dataset.data.table
    decoded = any(_is_decoded(feature) for feature in dataset.features.values())
    if decoded or table.column_names != dataset.column_names:
        return None
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        return None  # reading row by row says what is wrong
    return table


def _is_decoded(feature: Any) -> bool:
    """Whether the values are made of what is stored, in place of being it."""
    if isinstance(feature, dict):
        return any(_is_decoded(inner) for inner in feature.values())
    if isinstance(feature, list):
        return any(_is_decoded(inner) for inner in feature)
    inner = getattr(feature, "feature", None)
    return _is_decoded(inner) if inner is not None else type(feature).__name__ != "Value"

"""The prompts of a data set, in order, with their keys and a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from curro.core.identity import digest_rows, repeated_rows
from curro.data.raw import DataError, Row

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa


class PromptSet(Sequence[Row]):
    """N rows; prompt i of the curriculum is row i.

    Args:
        rows: each with `prompt` (text or messages), `answer` (text or None), `key` (unique text) and any
            other columns.
        source: what the rows were loaded from, for messages and to find the reward of a lab task.

    Raises:
        DataError: no rows, or two rows with one key.
    """

    def __init__(self, rows: Sequence[Row], *, source: str = "") -> None:
        if not len(rows):
            raise DataError("the data set is empty: a curriculum needs at least one prompt")
        self.source = source
        self.rows = list(rows)
        self.keys: list[str] = [row["key"] for row in self.rows]
        if len(set(self.keys)) < len(self.keys):
            repeated = next(key for key in self.keys if self.keys.count(key) > 1)
            first = self.keys.index(repeated)
            second = self.keys.index(repeated, first + 1)
            raise DataError(f"rows {first} and {second} have the same key {repeated!r}: make the keys unique")

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self.rows[index]

    def __repr__(self) -> str:
        return f"PromptSet({len(self)} prompts from {self.source or 'memory'!r})"

    @property
    def fingerprint(self) -> str:
        """SHA-256, as 64 hex digits, over the prompts and answers in their order."""
        return self._digested[0]

    @property
    def row_digests(self) -> np.ndarray:
        """A digest of each row's prompt and answer, uint64 (N,)."""
        return self._digested[1]

    @cached_property
    def _digested(self) -> tuple[str, np.ndarray]:
        return digest_rows((row["prompt"], row["answer"]) for row in self.rows)

    @property
    def notes(self) -> list[str]:
        """What looks like a mistake in the rows and is none for certain, in sentences."""
        sentences = [sentence] if (sentence := repeated_rows(self.row_digests)) else []
        if "source" in self.columns:
            lacking = [i for i, row in enumerate(self) if row.get("source") is None]
            if lacking and len(lacking) < len(self):
                sentences.append(
                    f"{len(lacking):,} of {len(self):,} rows have no source and others have one (the first "
                    f"is row {lacking[0]}): weights and metrics by source leave these rows out"
                )
        return sentences

    @property
    def columns(self) -> list[str]:
        """The names that any row has."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def with_column(self, name: str, values: Sequence[Any]) -> PromptSet:
        """The data set with a column of these N values, in place of any of that name."""
        rows = [{**row, name: value} for row, value in zip(self.rows, values, strict=True)]
        return PromptSet(rows, source=self.source)

    def subset(self, ids: Sequence[int]) -> PromptSet:
        """The prompts `ids`, in that order, as a data set of their own."""
        return PromptSet([self.rows[i] for i in ids], source=self.source)

    def to_hf(self) -> datasets.Dataset:
        """The rows as a `datasets.Dataset` with a column `prompt_id`, 0..N-1, in place of any of that name.

        Nested columns whose rows differ in shape are kept as JSON, for Arrow would fill them up with nulls;
        and so are those with a zero character in a name, which `datasets` would cut there.
        """
        import datasets

        columns: dict[str, Any] = {name: [row.get(name) for row in self.rows] for name in self.columns}
        features: dict[str, Any] = {}
        for name, values in columns.items():
            try:
                features[name] = datasets.Features.from_arrow_schema(_schema(name, values))[name]
            except TypeError:
                features[name] = datasets.Json()
                columns[name] = [None if value is None else _json(value) for value in values]
        columns["prompt_id"] = range(len(self))
        features["prompt_id"] = datasets.Value("int64")
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def _schema(name: str, values: list[Any]) -> Any:
    """The Arrow schema of a column that Arrow gives back as it was."""
    import pyarrow as pa

    try:
        array = pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise TypeError(f"mixed types in {name}") from error
    if _has_cut_names(array.type):
        raise TypeError(f"a name with a zero character in {name}")
    if pa.types.is_nested(array.type) and _json(array.to_pylist()) != _json(values):
        raise TypeError(f"rows of different shape in {name}")
    return pa.schema([pa.field(name, array.type)])


def _has_cut_names(kind: pa.DataType) -> bool:
    """Whether a name inside an Arrow type holds a zero character, where `datasets` takes it to end."""
    inner = [kind.field(i) for i in range(kind.num_fields)]
    return any("\0" in field.name or _has_cut_names(field.type) for field in inner)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)

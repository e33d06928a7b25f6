"""The prompts of a data set, in order, with their keys and a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from curro.core.identity import digest_rows, repeated_rows
from curro.data.arrow_rows import ArrowRows, has_cut_names
from curro.data.raw import DataError, Row

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa


class PromptSet(Sequence[Row]):
    """N rows; prompt i of the curriculum is row i.

    Args:
        rows: each with `prompt` (text or messages), `answer` (text or None), `key` (unique text) and any
            other columns. `ArrowRows` are kept as they are, others as a list.
        source: what the rows were loaded from, for messages and to find the reward of a lab task.

    Raises:
        DataError: no rows, or two rows with one key.
    """

    def __init__(self, rows: Sequence[Row], *, source: str = "") -> None:
        if not len(rows):
            raise DataError("the data set is empty: a curriculum needs at least one prompt")
        self.source = source
        self.rows: Sequence[Row] = rows
        self.keys: Sequence[str] = []
        if isinstance(rows, ArrowRows):
            self.keys = rows.keys
            return
        self.rows = list(rows)
        self.keys = [row["key"] for row in self.rows]
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
        return self.rows[index]  # type: ignore[return-value]

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
        if isinstance(self.rows, ArrowRows):
            return self.rows.fingerprint, self.rows.row_digests
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
        if isinstance(self.rows, ArrowRows):
            return self.rows.columns
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def with_column(self, name: str, values: Sequence[Any]) -> PromptSet:
        """The data set with a column of these N values, in place of any of that name."""
        if isinstance(self.rows, ArrowRows):
            return PromptSet(self.rows.with_column(name, values), source=self.source)
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

        if isinstance(self.rows, ArrowRows):
            return _numbered(self.rows.to_arrow())
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


def _numbered(table: pa.Table) -> datasets.Dataset:
    """A table as a data set with the column `prompt_id`."""
    import datasets
    import pyarrow as pa

    if "prompt_id" in table.column_names:
        table = table.drop_columns(["prompt_id"])
    numbered = table.append_column("prompt_id", pa.array(np.arange(table.num_rows)))
    # a random name for the table, because by default all of its bytes are hashed for one
    name = datasets.fingerprint.generate_random_fingerprint()
    # what pandas or another data set wrote of the columns would be read as what they are
    return datasets.Dataset(numbered.replace_schema_metadata(None), fingerprint=name)


def _schema(name: str, values: list[Any]) -> Any:
    """The Arrow schema of a column that Arrow gives back as it was."""
    import pyarrow as pa

    try:
        array = pa.array(values)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise TypeError(f"mixed types in {name}") from error
    if has_cut_names(array.type):
        raise TypeError(f"a name with a zero character in {name}")
    if pa.types.is_nested(array.type) and _json(array.to_pylist()) != _json(values):
        raise TypeError(f"rows of different shape in {name}")
    return pa.schema([pa.field(name, array.type)])


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def stratified_subset(
    rates_N: ArrayLike, n: int, *, bins: int | Sequence[float] = 20, seed: int = 0
) -> np.ndarray:
    """Choose `n` of N prompts so that every stratum of pass rates keeps its share.

    A stratum of c prompts is due n c / N places: the whole part of that, and one more for the strata with
    the largest remainders (equal remainders: the lower pass rates first). Within a stratum the choice is
    uniform.

    Args:
        rates_N: pass rates, shape (N,); any finite measure of difficulty will do.
        n: how many to choose, 1..N.
        bins: how many quantiles to cut at (quantiles that coincide, as where half the rates are 0, are one
            stratum), or the inner edges of the strata, increasing; an edge belongs to the stratum below it.
        seed: of the choice within the strata.

    Returns:
        int64 ids, shape (n,), increasing.

    Raises:
        DataError: rates that are not finite or not one-dimensional, n out of range, or edges out of order.
    """
    rates = np.asarray(rates_N, np.float64)
    if rates.ndim != 1 or not np.isfinite(rates).all():
        raise DataError(f"pass rates must be finite numbers in one dimension, not of shape {rates.shape}")
    if not 1 <= n <= rates.size:
        raise DataError(f"a subset of {n} cannot be chosen from {rates.size} prompts")
    stratum = np.searchsorted(_edges(rates, bins), rates, side="left")
    rng = np.random.default_rng(seed)
    strata, counts = np.unique(stratum, return_counts=True)
    chosen = [
        rng.permutation(np.flatnonzero(stratum == s))[:k]
        for s, k in zip(strata, _largest_remainder(counts, n), strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def _edges(rates: np.ndarray, bins: int | Sequence[float]) -> np.ndarray:
    if isinstance(bins, int):
        if bins < 1:
            raise DataError(f"{bins} strata: there must be at least one")
        # inverted_cdf takes the edges from the rates themselves: no rounding cuts equal rates apart
        return np.unique(np.quantile(rates, np.arange(1, bins) / bins, method="inverted_cdf"))
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or not (np.diff(edges) > 0).all():
        raise DataError(f"the edges of the strata must increase: {list(bins)}")
    return edges


def _largest_remainder(counts: np.ndarray, n: int) -> np.ndarray:
    """Share `n` places in proportion to `counts`, exactly: whole numbers throughout."""
    sizes, remainders = np.divmod(counts * n, counts.sum())
    sizes[np.argsort(-remainders, kind="stable")[: n - sizes.sum()]] += 1
    return sizes

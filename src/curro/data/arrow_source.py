"""Sources whose rows are columns already: Parquet files, and data sets of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def parquet_table(files: Sequence[Path]) -> pa.Table | None:
    """The rows of Parquet files one after the other; None for other files, or columns that differ."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files or any(file.suffix != ".parquet" for file in files):
        return None
    try:
        tables = [pq.read_table(file, partitioning=None) for file in files]
        return pa.concat_tables(tables)
    except (pa.ArrowException, OSError):
        return None  # reading row by row says which file is wrong


def dataset_table(dataset: Any) -> pa.Table | None:
    """The Arrow table under a `datasets.Dataset`, as it was mapped from the disk.

    None where rows are something else than the table's: rows that were chosen or shuffled, and columns that
    are decoded, as images are.
    """
    import datasets

    if not isinstance(dataset, datasets.Dataset):
        return None
    if dataset._indices is not None or dataset.format["type"] is not None:
        return None
    table = dataset.data.table
    decoded = any(_is_decoded(feature) for feature in dataset.features.values())
    return None if decoded or table.column_names != dataset.column_names else table


def _is_decoded(feature: Any) -> bool:
    """Whether the values are made of what is stored, in place of being it."""
    if isinstance(feature, dict):
        return any(_is_decoded(inner) for inner in feature.values())
    if isinstance(feature, list):
        return any(_is_decoded(inner) for inner in feature)
    inner = getattr(feature, "feature", None)
    return _is_decoded(inner) if inner is not None else type(feature).__name__ != "Value"

"""One call for every kind of source: the lab, files, folders, the hub."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from curro.data import files, hub, provided
from curro.data.arrow_rows import arrow_rows
from curro.data.arrow_source import dataset_table, parquet_table
from curro.data.columns import normalise
from curro.data.errors import DataError
from curro.data.prompt_set import PromptSet
from curro.data.raw import Rows
from curro.providers import provider

if TYPE_CHECKING:
    import pyarrow as pa

_HUB_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(:(?P<config>[\w.-]+))?")


def load_prompts(
    source: str,
    *,
    prompt_column: str | None = None,
    key_column: str | None = None,
    answer_column: str | None = None,
    split: str = "train",
    limit: int | None = None,
) -> PromptSet:
    """Load a data set's prompts, in its own order.

    Args:
        source: `lab:NAME` or `lab:NAME/DIFFICULTY`; a JSONL, JSON or Parquet file; several of them
            with commas between; a folder of them; or a hub id, `owner/name`, `owner/name:config` or
            `owner/name:file.jsonl`.
        prompt_column, answer_column, key_column: which columns to use where the names are none of
            TRL's, verl's or the plain ones (see `curro.data.columns`); dots reach into nested columns.
        split: which split of a hub data set or of a folder whose file names begin with a split's name.
            A file given by name is read whatever it is called.
        limit: use the first `limit` rows only.

    Returns:
        N rows with `prompt` (text, or messages as given), `answer` (text or None), `key` (unique text)
        and the data set's other columns untouched. Rows of Parquet files and of the hub whose prompts are
        texts stay in Arrow, and each becomes a Python object when it is asked for.

    Raises:
        DataError: the source is missing, empty, malformed, or two of its rows have one key.
    """
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}: ask for at least one row, or leave the limit out")
    columns = {"prompt": prompt_column, "answer": answer_column, "key": key_column}
    packaged = provider(source)
    if packaged is not None:
        return _read(provided.read(source, *packaged, split, limit), limit, columns, source)
    table, rows = _opened(source, split)
    lazy = None if table is None else arrow_rows(table.slice(0, limit), **columns)
    return _read(rows, limit, columns, source) if lazy is None else PromptSet(lazy, source=source)


def raw_rows(source: str, split: str, limit: int | None) -> Rows:
    """The rows of a source as they are; `limit` is for sources that make as many as are asked for.

    Raises:
        DataError: as `load_prompts`, for what it says of sources and files.
    """
    packaged = provider(source)
    if packaged is not None:
        return provided.read(source, *packaged, split, limit)
    return _opened(source, split)[1]


def _opened(source: str, split: str) -> tuple[pa.Table | None, Rows]:
    """The rows of files or of the hub; and as a table, where they are columns already."""
    hub_id = _HUB_ID.fullmatch(source)
    is_file_name = hub_id and hub_id["config"] is None and Path(source).suffix in files.READERS
    if hub_id and not Path(source).exists() and not is_file_name:
        dataset = hub.load(hub_id["name"], hub_id["config"], split)
        return dataset_table(dataset), hub.read(hub_id["name"], dataset)
    return parquet_table(list(files.found(source, split))), files.read(source, split)


def _read(rows: Rows, limit: int | None, columns: dict[str, str | None], source: str) -> PromptSet:
    """The prompts of rows that are read one by one."""
    raw = list(islice(rows, limit))
    if not raw:
        raise DataError(f"{source} is empty: a curriculum needs at least one prompt")
    return PromptSet(normalise(raw, **columns), source=source)

"""One call for every kind of source: the lab, files, folders, the hub."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from curro.data import files, hub, labs
from curro.data.columns import normalise
from curro.data.errors import DataError
from curro.data.prompt_set import PromptSet
from curro.data.raw import Rows

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
            with commas between; a folder of them; or a hub id, `owner/name` or `owner/name:config`.
        prompt_column, answer_column, key_column: which columns to use where the names are none of
            TRL's, verl's or the plain ones (see `curro.data.columns`); dots reach into nested columns.
        split: which split of a hub data set or of a folder whose file names begin with a split's name.
            A file given by name is read whatever it is called.
        limit: use the first `limit` rows only.

    Returns:
        N rows with `prompt` (text, or messages as given), `answer` (text or None), `key` (unique text)
        and the data set's other columns untouched.

    Raises:
        DataError: the source is missing, empty, malformed, or two of its rows have one key.
    """
    if limit is not None and limit < 1:
        raise DataError(f"limit is {limit}: ask for at least one row, or leave the limit out")
    raw = list(islice(_rows(source, split, limit), limit))
    if not raw:
        raise DataError(f"{source} is empty: a curriculum needs at least one prompt")
    columns = {"prompt": prompt_column, "answer": answer_column, "key": key_column}
    return PromptSet(normalise(raw, **columns), source=source)


def _rows(source: str, split: str, limit: int | None) -> Rows:
    if source.startswith("lab:"):
        return labs.read(source.removeprefix("lab:"), split, limit)
    hub_id = _HUB_ID.fullmatch(source)
    if hub_id and not Path(source).exists() and Path(source).suffix not in files.READERS:
        return hub.read(hub_id["name"], hub_id["config"], split)
    return files.read(source, split)

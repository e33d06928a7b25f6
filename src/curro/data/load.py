"""One call for every kind of source: the lab, files, folders, the hub."""

from __future__ import annotations

import os
import re
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from curro.core.errors import ConfigError
from curro.core.loading import provider
from curro.core.text import install_extra
from curro.data.columns import normalise
from curro.data.files import is_data_file, read, read_dataset
from curro.data.prompt_set import PromptSet
from curro.data.raw import DataError, RawRow, Rows

if TYPE_CHECKING:
    import datasets

_HUB_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(:(?P<config>[\w.*-]+))?")


def from_hub(name: str, config: str | None, split: str) -> datasets.Dataset:
    """One split; of single files where the configuration names or matches `.jsonl` files there.

    Loading scripts are never run.

    Raises:
        DataError: no such data set, configuration or split; no network; `datasets` not installed.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(f"{name!r} is on the hub; to load from there, {install_extra('train')}") from None
    try:
        if config is not None and config.endswith(".jsonl"):
            return datasets.load_dataset("json", data_files=f"hf://datasets/{name}/{config}", split=split)
        return datasets.load_dataset(name, config, split=split)
    # load_dataset raises ValueError for a wrong split or configuration, OSErrors of several libraries for the
    # network, and its own classes for what the hub answers
    except (ValueError, OSError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"there is no file or folder {name!r} here, and from the hub the split {split!r}"
            f"{f' of the configuration {config!r}' if config else ''} cannot be loaded: {reason}"
        ) from error


def load_prompts(
    source: str | os.PathLike[str],
    *,
    prompt_column: str | None = None,
    key_column: str | None = None,
    answer_column: str | None = None,
    split: str = "train",
    limit: int | None = None,
) -> PromptSet:
    """Load a data set's prompts, in its own order.

    Args:
        source: `lab:NAME` or `lab:NAME/DIFFICULTY`; `bfcl:NAME`; `verifiers:NAME`, an installed taskset
            that is answered in one turn; a JSONL, JSON, Parquet, CSV or Arrow file; several of them with
            commas between; a folder of them, of `save_to_disk`, or a snapshot of the hub; or a hub id,
            `owner/name`, `owner/name:config` or `owner/name:file.jsonl`.
        prompt_column, answer_column, key_column: which columns to use where the names are none of
            TRL's, verl's or the plain ones (see `curro.data.columns`); dots reach into nested columns.
        split: which split of a hub data set, or of a folder whose files or folders begin or end with a
            split's name. A file given by name is read whatever it is called.
        limit: use the first `limit` rows only.

    Returns:
        N rows with `prompt` (text, or messages as given), `answer` (text or None), `key` (unique text)
        and the data set's other columns untouched.

    Raises:
        DataError: the source is missing, empty, malformed, or two of its rows have one key.
    """
    if limit is not None and (type(limit) is not int or not 1 <= limit <= sys.maxsize):
        raise DataError(f"limit is {limit!r}: ask for at least one row, or leave the limit out")
    if not isinstance(source, str | os.PathLike) or not os.fspath(source).strip():
        raise DataError(f"a data set is named by a text or a path, not {source!r:.50}")
    source = os.fspath(source)
    raw = list(islice(raw_rows(source, split, limit), limit))
    if not raw:
        raise DataError(f"{source} is empty: a curriculum needs at least one prompt")
    rows = normalise(raw, prompt=prompt_column, answer=answer_column, key=key_column)
    return PromptSet(rows, source=source)


def raw_rows(source: str, split: str, limit: int | None) -> Rows:
    """The rows of a source as they are; `limit` is for sources that make as many as are asked for.

    Raises:
        DataError: as `load_prompts`, for what it says of sources and files.
    """
    packaged = provider(source)
    if packaged is not None:
        try:
            problems = packaged[0].problems(packaged[1], split, limit)
        except ConfigError as error:
            raise DataError(f"{source}: {error}") from error
        return (RawRow(source, f", problem {number}", row) for number, row in enumerate(problems))
    hub_id = _HUB_ID.fullmatch(source)
    is_file_name = hub_id and hub_id["config"] is None and is_data_file(Path(source))
    if hub_id and not Path(source).exists() and not is_file_name:
        return read_dataset(hub_id["name"], from_hub(hub_id["name"], hub_id["config"], split))
    return read(source, split)

"""One call for every kind of source: the lab, files, folders, the hub."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curro.core.loading import provider
from curro.data import raw as provided
from curro.data.arrow_rows import arrow_rows, dataset_table, parquet_table
from curro.data.columns import normalise
from curro.data.prompt_set import PromptSet
from curro.data.raw import DataError, RawRow, Rows

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa


_SPLITS = {"train", "test", "validation", "valid", "val", "dev", "eval"}


def read(source: str, split: str) -> Rows:
    """Every row of one file, of several with commas between, or of a folder.

    Raises:
        DataError: a file is missing (names similar files), is of an unknown kind, does not parse
            (names the line), or has a row that is no object; the folder has nothing of this split.
    """
    for file in source_files(source, split):
        if file.suffix not in READERS:
            raise DataError(f"{file} is none of {', '.join(READERS)}: convert it to one of them")
        yield from READERS[file.suffix](file)


def source_files(source: str, split: str) -> Iterator[Path]:
    """The files of a source, in order; raises DataError as `read` does."""
    names = [source] if Path(source).exists() else [name.strip() for name in source.split(",")]
    for name in names:
        path = Path(name)
        if not name or not path.exists():
            raise DataError(f"there is no file or folder {name!r}{_near(path)}")
        if not (path.is_dir() or path.is_file()):
            raise DataError(
                f"{name!r} is neither a file nor a folder but a pipe or a device: save it as a file"
            )
        yield from _files(path, split) if path.is_dir() else [path]


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": the folder {str(path.parent)!r} does not exist either"
    readable = [p.name for p in path.parent.iterdir() if p.is_dir() or p.suffix in READERS]
    close = difflib.get_close_matches(path.name, readable, 3) or sorted(readable)[:5]
    folder = "the working directory" if path.parent == Path() else str(path.parent)
    return f": in {folder} there is {', '.join(close) or 'nothing to read'}"


def _files(folder: Path, split: str) -> list[Path]:
    """The folder's data files; those of one split where their names begin with splits (`test-0.jsonl`)."""
    files = sorted(p for p in folder.iterdir() if p.suffix in READERS)
    if not files:
        raise DataError(f"the folder {folder} has no files that end in {', '.join(READERS)}")
    by_split: dict[str, list[Path]] = {}
    for path in files:
        prefix = re.split(r"[-_.]", path.name.lower())[0]
        by_split.setdefault(prefix if prefix in _SPLITS else "train", []).append(path)
    if split not in by_split:
        raise DataError(f"the folder {folder} has no split {split!r}; it has {', '.join(sorted(by_split))}")
    return by_split[split]


def _json_lines(path: Path) -> Rows:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _row(_json(line.rstrip(), path, number), path, f":{number}")


def _json_array(path: Path) -> Rows:
    """A `.json` file is an array of objects or, as many tools write it, JSONL."""
    with path.open("rb") as file:
        start = file.read(256).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(b"["):
        yield from _json_lines(path)
        return
    for number, row in enumerate(_json(path.read_bytes(), path, 1)):
        yield _row(row, path, f", item {number}")


def _json(text: bytes, path: Path, line: int) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        at = f"{path}:{line + error.lineno - 1}"
        raise DataError(f"{at} is not valid JSON: {error.msg}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of 5,000 digits, 1,000 brackets
        raise DataError(f"{path}:{line} cannot be read as JSON: {error}") from None


def _row(row: Any, path: Path, position: str) -> RawRow:
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise DataError(
            f'{path}{position} is not an object but {kind}: a row is {{"prompt": ..., "answer": ...}}'
        )
    return RawRow(path.name, position, row)


def _parquet(path: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=4096):
                for row in batch.to_pylist():
                    yield RawRow(path.name, f", row {number}", row)
                    number += 1
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error


READERS = {".jsonl": _json_lines, ".json": _json_array, ".parquet": _parquet}


def read_hub(name: str, dataset: datasets.Dataset) -> Rows:
    """Every row of a data set."""
    for number, row in enumerate(dataset):
        yield RawRow(name, f", row {number}", row)


def load(name: str, config: str | None, split: str) -> datasets.Dataset:
    """One split; of single files where the configuration names or matches `.jsonl` files there.

    Loading scripts are never run.

    Raises:
        DataError: no such data set, configuration or split; no network; `datasets` not installed.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(f"{name!r} is on the hub: pip install 'curro[train]' to load from there") from None
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


_HUB_ID = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(:(?P<config>[\w.*-]+))?")


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
            that is answered in one turn; a JSONL, JSON or Parquet file; several of them
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
    if not isinstance(source, str | os.PathLike):
        raise DataError(f"a data set is named by a text or a path, not {source!r:.50}")
    source = os.fspath(source)
    columns = {"prompt": prompt_column, "answer": answer_column, "key": key_column}
    packaged = provider(source)
    if packaged is not None:
        return _read(provided.read(source, *packaged, split, limit), limit, columns, source)
    table, rows = _opened(source, split)
    in_arrow = None if table is None else arrow_rows(table.slice(0, limit), **columns)
    return _read(rows, limit, columns, source) if in_arrow is None else PromptSet(in_arrow, source=source)


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
    is_file_name = hub_id and hub_id["config"] is None and Path(source).suffix in READERS
    if hub_id and not Path(source).exists() and not is_file_name:
        dataset = load(hub_id["name"], hub_id["config"], split)
        return dataset_table(dataset), read_hub(hub_id["name"], dataset)
    return parquet_table(list(source_files(source, split))), read(source, split)


def _read(rows: Rows, limit: int | None, columns: dict[str, str | None], source: str) -> PromptSet:
    """The prompts of rows that are read one by one."""
    raw = list(islice(rows, limit))
    if not raw:
        raise DataError(f"{source} is empty: a curriculum needs at least one prompt")
    return PromptSet(normalise(raw, **columns), source=source)

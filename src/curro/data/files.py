"""Rows of JSONL, JSON and Parquet files and of folders of them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curro.data.errors import DataError
from curro.data.raw import RawRow, Rows

_SPLITS = {"train", "test", "validation", "valid", "val", "dev", "eval"}


def read(source: str, split: str) -> Rows:
    """Every row of one file, of several with commas between, or of a folder.

    Raises:
        DataError: a file is missing (names similar files), is of an unknown kind, does not parse
            (names the line), or has a row that is no object; the folder has nothing of this split.
    """
    for file in found(source, split):
        if file.suffix not in READERS:
            raise DataError(f"{file} is none of {', '.join(READERS)}: convert it to one of them")
        yield from READERS[file.suffix](file)


def found(source: str, split: str) -> Iterator[Path]:
    """The files of a source, in order; raises DataError as `read` does."""
    names = [source] if Path(source).exists() else [name.strip() for name in source.split(",")]
    for name in names:
        path = Path(name)
        if not name or not path.exists():
            raise DataError(f"there is no file or folder {name!r}{_near(path)}")
        yield from _files(path, split) if path.is_dir() else [path]


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": the folder {str(path.parent)!r} does not exist either"
    readable = [p.name for p in path.parent.iterdir() if p.is_dir() or p.suffix in READERS]
    close = difflib.get_close_matches(path.name, readable, 3) or sorted(readable)[:5]
    there = "the working directory" if path.parent == Path() else str(path.parent)
    return f": in {there} there is {', '.join(close) or 'nothing to read'}"


def _files(folder: Path, split: str) -> list[Path]:
    """The folder's data files; those of one split where their names begin with splits (`test-0.jsonl`)."""
    found = sorted(p for p in folder.iterdir() if p.suffix in READERS)
    if not found:
        raise DataError(f"the folder {folder} has no files that end in {', '.join(READERS)}")
    by_split: dict[str, list[Path]] = {}
    for path in found:
        first = re.split(r"[-_.]", path.name.lower())[0]
        by_split.setdefault(first if first in _SPLITS else "train", []).append(path)
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


def _row(row: Any, path: Path, place: str) -> RawRow:
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise DataError(
            f'{path}{place} is not an object but {kind}: a row is {{"prompt": ..., "answer": ...}}'
        )
    return RawRow(path.name, place, row)


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

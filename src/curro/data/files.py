"""The files of a data set: which ones a path means, and their rows.

A path is a file, several with commas between, or a folder: of data files, of a data set that `save_to_disk`
wrote, or a snapshot of the hub, whose files lie below in folders of splits and configurations.
"""

from __future__ import annotations

import csv
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curro.core.identity import without_nulls
from curro.data.columns import PROMPT
from curro.data.raw import DataError, RawRow, Rows

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

SPLITS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "validation": "validation",
    "valid": "validation", "val": "validation", "dev": "validation", "eval": "validation",
}  # fmt: skip
"""Words in the names of files and folders, and the split that each stands for."""
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar")
DESCRIPTIONS = ("dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json", "config.json")
"""Files of a folder that describe its data."""


def read(source: str, split: str) -> Rows:
    """Every row of the files that a source means.

    Raises:
        DataError: a file is missing (names similar files), has an unknown kind, does not parse (names the
            line), or has a row that is not an object; the folder has nothing of this split.
    """
    for path in source_files(source, split):
        if path.is_dir():
            yield from read_dataset(str(path), saved_dataset(path, split))
        elif is_data_file(path):
            if not path.exists():
                raise DataError(f"{path} is a link to a file that is gone: download it again")
            if path.stat().st_size < 1000 and path.read_bytes().startswith(b"version https://git-lfs"):
                raise DataError(f"{path} is a pointer to a file in Git LFS: run `git lfs pull` in its folder")
            yield from READERS[path.suffix.lower()](path, split)
        else:
            how = "unpack" if path.suffix in PACKED else "convert"
            raise DataError(f"{path} is none of {', '.join(READERS)}: {how} it to one of them")


def is_data_file(path: Path) -> bool:
    """Whether a file's name ends as one that can be read."""
    return path.suffix.lower() in READERS


def source_files(source: str, split: str) -> Iterator[Path]:
    """The files of a source, in order, and folders of `save_to_disk`; raises DataError as `read` does."""
    names = [source] if Path(source).exists() else [name.strip() for name in source.split(",")]
    for name in names:
        path = Path(name)
        if "://" in name:
            raise DataError(f"{name!r} is an address: download the file and name that")
        if not name or not path.exists():
            raise DataError(f"there is no file or folder {name!r}{_near(path)}")
        for file in _files(path, split) if path.is_dir() else [path]:
            if file.exists() and not (file.is_dir() or file.is_file()):
                raise DataError(
                    f"{str(file)!r} is neither a file nor a folder but a pipe or a device: save it as a file"
                )
            yield file


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f": the folder {str(path.parent)!r} does not exist either"
    readable = [p.name for p in path.parent.iterdir() if p.is_dir() or is_data_file(p)]
    close = difflib.get_close_matches(path.name, readable, 3) or sorted(readable)[:5]
    folder = "the working directory" if path.parent == Path() else str(path.parent)
    return f": in {folder} there is {', '.join(close) or 'nothing to read'}"


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote the folder, for a `Dataset` or a `DatasetDict`."""
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def _files(folder: Path, split: str) -> list[Path]:
    """The data files of a split below a folder."""
    if is_saved(folder):
        return [folder]
    by_split: dict[str, list[Path]] = {}
    files = _data_in(folder, "*")
    has_others = any(path.suffix.lower() != ".json" for path in files)
    for path in files:
        name = _split_of(path.stem)
        if name is not None or path.suffix.lower() != ".json" or not has_others:  # else it describes them
            by_split.setdefault(name or "train", []).append(path)
    if by_split:
        return _of_split(folder, by_split, split)
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and _has_data(path)]
    if not inner:
        others = [path.name for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
        raise DataError(
            f"the folder {folder} has no files that end in {', '.join(READERS)}; it has "
            f"{', '.join(others[:5]) or 'nothing'}"
        )
    if all(_split_of(path.name) for path in inner):
        of_folders: dict[str, list[Path]] = {}
        for path in inner:
            files = [path] if is_saved(path) else _data_in(path, "**/*")
            of_folders.setdefault(_split_of(path.name) or "", []).extend(files)
        return _of_split(folder, of_folders, split)
    if len(inner) > 1:
        names = ", ".join(path.name for path in inner)
        raise DataError(
            f"the folder {folder} has several data sets in it, {names}: name one, as {folder / inner[0].name}"
        )
    return _files(inner[0], split)


def _has_data(folder: Path) -> bool:
    return not folder.name.startswith(".") and (is_saved(folder) or bool(_data_in(folder, "**/*")))


def _data_in(folder: Path, pattern: str) -> list[Path]:
    """The data files that match a pattern, in order, without hidden ones as macOS and Jupyter leave them.

    Raises:
        DataError: a file beside them is packed, and nobody has unpacked it.
    """
    shown = [
        path
        for path in sorted(folder.glob(pattern))
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    files = [p for p in shown if is_data_file(p) and not p.is_dir() and p.name not in DESCRIPTIONS]
    for path in shown if files else ():
        unpacked = path.with_suffix("")
        if path.suffix.lower() in PACKED and is_data_file(unpacked) and unpacked not in files:
            raise DataError(f"{path} is packed beside files that are not: unpack it, or move it away")
    return files


def _split_of(name: str) -> str | None:
    """The split that a name begins or ends with, as `test-00000-of-00001` and `gsm8k_train` do."""
    words = [word for word in re.split(r"[-_.]", name.lower()) if not word.isdecimal() and word != "of"]
    return next((SPLITS[word] for word in (words[:1] + words[-1:]) if word in SPLITS), None)


def _of_split(folder: Path, by_split: dict[str, list[Path]], split: str) -> list[Path]:
    name = SPLITS.get(split, split)
    if name not in by_split:
        raise DataError(
            f"the folder {folder} has no split {split!r}; it has {', '.join(sorted(by_split))}: name what is "
            f"in it to take that, as {next(iter(by_split.values()))[0]}"
        )
    return by_split[name]


def saved_dataset(folder: Path, split: str) -> datasets.Dataset:
    """The data set that `save_to_disk` wrote, or the split of a dict of them."""
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (OSError, ValueError, KeyError, TypeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f"{folder} cannot be read with load_from_disk: {error}") from error
    if isinstance(loaded, datasets.Dataset):
        return loaded
    alike = [name for name in loaded if name == split]
    alike = alike or [name for name in loaded if (_split_of(name) or name) == SPLITS.get(split, split)]
    if len(alike) != 1:
        has = f"several splits {split!r}" if alike else f"no split {split!r}"
        raise DataError(
            f"the folder {folder} has {has}; it has {', '.join(loaded)}: name one, as "
            f"{folder / (alike or list(loaded))[0]}"
        )
    return loaded[alike[0]]


def read_dataset(name: str, dataset: datasets.Dataset) -> Rows:
    """Every row of a data set."""
    try:
        for number, row in enumerate(dataset):
            yield RawRow(name, f", row {number}", _unfilled(row))
    except UnicodeDecodeError as error:
        raise DataError(f"{name} cannot be read: {error}") from error


_BLANK = b"\xef\xbb\xbf \t\r\n"


def _json(path: Path, split: str) -> Rows:
    """JSONL, an array of objects, or one object that holds the rows."""
    with path.open("rb") as lines:
        first = next((line for line in lines if line.strip(_BLANK)), b"")
        has_more = any(line.strip() for line in lines)
    is_line = first.lstrip(_BLANK).startswith(b"{") and _is_json(first)
    if is_line and (has_more or path.suffix.lower() != ".json"):
        yield from _json_lines(path)
        return
    try:
        content = _decoded(path.read_bytes(), path, 1) if first else []
    except DataError:
        if path.suffix.lower() == ".json":
            raise
        yield from _json_lines(path)  # which names the line
        return
    rows = _rows_in(content, path, split) if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise DataError(f"{path} is not rows but {type(rows).__name__}: write an array of objects")
    for number, row in enumerate(rows):
        yield _row(row, path, ":1" if row is content else f", item {number}")


def _json_lines(path: Path) -> Rows:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _row(_decoded(line.rstrip(), path, number), path, f":{number}")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return True


def _rows_in(content: dict[str, Any], path: Path, split: str) -> list[Any]:
    """The rows that one JSON object holds.

    It may be a row itself, columns (`{"prompt": [...], "answer": [...]}`), or have a list of rows under some
    name, under `data` or `rows`, or one for each split.
    """
    lists = {name: value for name, value in content.items() if isinstance(value, list)}
    of_rows = {name: rows for name, rows in lists.items() if rows and isinstance(rows[0], dict)}
    has_plain = any(not isinstance(value, list | dict) for value in content.values())
    has_nested = any(isinstance(value, list | dict) for value in content.values())
    has_prompt = any(name in content for name in PROMPT)
    if any(map(_are_messages, lists.values())) or (has_plain and (has_prompt or not has_nested)):
        return [content]
    is_of_pandas = {"columns", "data"} <= set(lists)  # orient="split": the names of columns apart from rows
    if len(lists) == len(content) > 0 and (has_prompt or not of_rows) and not is_of_pandas:
        lengths = {name: len(values) for name, values in lists.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of the object in {path} differ in length: {lengths}")
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if len(of_rows) > 1:
        splits = [name for name in of_rows if SPLITS.get(name.lower()) == SPLITS.get(split, split)]
        of_rows = {name: of_rows[name] for name in splits or ("data", "rows") if name in of_rows}
    if len(of_rows) == 1:
        (rows,) = of_rows.values()
        if not {"row_idx", "row"} <= set(rows[0]):
            return rows
        # the hub's viewer puts each row beside its number
        return [row["row"] if isinstance(row, dict) and "row" in row else row for row in rows]
    raise DataError(
        f"{path} is one JSON object with {', '.join(map(repr, content)) or 'nothing'}, and no rows can be "
        "found in it: write an array of objects, or an object a line"
    )


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, dict) and "role" in m for m in value)


def _unfilled(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose messages have no nulls of Arrow's."""
    return {
        name: [{"content": None, **without_nulls(message)} for message in value]
        if _are_messages(value)
        else value
        for name, value in row.items()
    }


def _decoded(text: bytes, path: Path, line: int) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        at = f"{path}:{line + error.lineno - 1}"
        raise DataError(f"{at} is not valid JSON: {error.msg}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of 5,000 digits, 1,000 brackets
        raise DataError(f"{path}:{line} cannot be read as JSON: {_why(error)}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):  # of which the last would count, and the others be lost
        raise ValueError(f"it has {_twice([name for name, _ in pairs])!r} twice in one object")
    return value


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name in dict.fromkeys(names) if names.count(name) > 1), None)


def _why(error: Exception) -> str:
    return f"{error}{': save it as UTF-8' * isinstance(error, UnicodeDecodeError)}"


def _row(row: Any, path: Path, position: str) -> RawRow:
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise DataError(
            f'{path}{position} is not an object but {kind}: a row is {{"prompt": ..., "answer": ...}}'
        )
    return RawRow(path.name, position, row)


def _parquet(path: Path, split: str) -> Rows:
    import pyarrow.parquet as pq

    with _tables("Parquet", path), pq.ParquetFile(path) as file:
        yield from _table_rows(path, file.iter_batches(batch_size=4096))


def _arrow(path: Path, split: str) -> Rows:
    """Arrow's two formats: a stream, as `datasets` writes it, or a file, as Polars does."""
    import pyarrow as pa

    with _tables("Arrow", path), pa.memory_map(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        if is_file:
            reader = pa.ipc.open_file(file)
            yield from _table_rows(path, map(reader.get_batch, range(reader.num_record_batches)))
        else:
            yield from _table_rows(path, pa.ipc.open_stream(file))


def _table_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> Rows:
    numbers = count()
    for batch in batches:
        if name := _twice(batch.schema.names):
            raise DataError(f"{path} has two columns {name!r}: rename one")
        for row in batch.to_pylist():
            yield RawRow(path.name, f", row {next(numbers)}", _unfilled(row))


@contextmanager
def _tables(kind: str, path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {_why(error)}") from error


def _csv(path: Path, split: str) -> Rows:
    """Every cell is text; an empty one is none."""
    csv.field_size_limit(1 << 30)
    parted = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, strict=True, delimiter=parted)
            names = table.fieldnames = [name.strip() for name in table.fieldnames or ()]
            if (twice := _twice(names)) is not None:
                raise DataError(f"{path} has two columns {twice!r}: rename one")
            for number, row in enumerate(table):
                if None in row or None in row.values():
                    raise DataError(f"{path}, row {number} has not as many cells as the header")
                yield RawRow(path.name, f", row {number}", {name: cell or None for name, cell in row.items()})
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as CSV: {_why(error)}") from error


READERS = {
    ".jsonl": _json, ".ndjson": _json, ".json": _json, ".parquet": _parquet, ".csv": _csv, ".tsv": _csv,
    ".arrow": _arrow,
}  # fmt: skip

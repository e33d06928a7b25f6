"""Which data set this is: one fingerprint, the same by whatever route the data came."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from decimal import Decimal
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.text import abbreviated

ANSWER = ("reward_model.ground_truth", "answer", "solution", "ground_truth")
"""Columns of answers, the first that is there."""


def answer_columns(names: Iterable[str]) -> tuple[str, ...]:
    """`ANSWER`; of rows with these columns of `PromptSet.to_hf` the one in which that puts every answer."""
    return ("answer",) if {"prompt_id", "key", "answer"} <= set(names) else ANSWER


def fingerprint(prompts: Iterable[Any], answers: Iterable[Any] | None = None) -> str:
    """SHA-256, as 64 hex digits, over the prompts (text or messages) and their answers in their order.

    Keys take no part, because each route has its own where the data has none: a prompt is the number of its
    row. In messages, fields that are None take no part, because Arrow adds them.
    """
    pairs = ((prompt, None) for prompt in prompts) if answers is None else zip(prompts, answers, strict=True)
    return digest_rows(pairs)[0]


def digest_rows(pairs: Iterable[tuple[Any, Any]]) -> tuple[str, np.ndarray]:
    """The fingerprint of N pairs of a prompt and its answer, and a digest of each pair, uint64 (N,)."""
    total, digests = hashlib.sha256(), bytearray()
    for prompt, answer in pairs:
        line = json.dumps([without_nulls(prompt), answer], sort_keys=True, default=str).encode()
        total.update(line + b"\n")
        digests += hashlib.sha256(line).digest()[:8]
    return total.hexdigest(), np.frombuffer(bytes(digests), "<u8")


def digest_dataset(rows: Iterable[Mapping[str, Any]]) -> tuple[str, np.ndarray]:
    """`digest_rows` of rows as a framework has them; the answer's column is found as `load_prompts` does."""
    columns = getattr(rows, "column_names", None)
    answers = answer_columns(next(iter(rows), {}) if columns is None else columns)
    if columns is not None:
        answers = tuple(name for name in answers if name.partition(".")[0] in columns)
        needed = {"prompt", *(name.partition(".")[0] for name in answers)}
        read = rows.select_columns([name for name in columns if name in needed])  # type: ignore[attr-defined]
        rows = _InBatches(read)
    answer = first_column(rows, answers)
    prompts = _checked(row.get("prompt") for row in rows)
    return digest_rows(zip(prompts, (answer_of(row, answer) for row in rows), strict=True))


def repeated_rows(row_digests: np.ndarray) -> str:
    """A sentence on rows that repeat another one's prompt and answer, by `digest_rows`; empty without any."""
    _, first_N, inverse_N = np.unique(row_digests, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first_N[inverse_N] != np.arange(len(row_digests))).tolist()
    if not repeated:
        return ""
    return (
        f"{len(repeated):,} of {len(row_digests):,} rows repeat the prompt and answer of another one (row "
        f"{repeated[0]} those of row {first_N[inverse_N[repeated[0]]]}): each counts as a prompt of its own"
    )


def _checked(prompts: Iterable[Any]) -> Iterator[Any]:
    """The prompts; raises ConfigError at one that is neither text nor messages."""
    for number, prompt in enumerate(prompts):
        if not isinstance(prompt, Sized):
            raise ConfigError(f"row {number}: the prompt is {prompt!r:.50}, neither text nor messages")
        yield prompt


class DatasetRows:
    """A host's rows, with their keys and fingerprint, as `Curriculum(prompts=...)` takes them.

    Attributes:
        rows: with their prompts in the column `prompt`, for methods that look at texts or columns.
        keys: the column `key`; the number of the row if there is none.
        fingerprint, row_digests: as `digest_dataset` gives them.

    Args:
        rows: a `datasets.Dataset`, or a sequence of dicts.
        prompt_column: text or messages.

    Raises:
        ConfigError: the rows are not dicts, or have no such column.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], prompt_column: str = "prompt") -> None:
        _check_prompts(rows, prompt_column)
        self.rows = rows = _with_prompts(rows, prompt_column)
        self.fingerprint, self.row_digests = digest_dataset(rows)
        self.keys = [str(number) for number in range(len(rows))]
        keys = column_of(rows, "key")
        if any(key is not None for key in keys):
            self.keys = [str(number if key is None else key) for number, key in enumerate(keys)]

    def __len__(self) -> int:
        return len(self.keys)


def column_of(rows: Any, column: str) -> list[Any]:
    """The values of a column of a data set's rows, None where a row has no such column."""
    names = getattr(rows, "column_names", None)
    if names is None:
        return [row.get(column) for row in rows]
    return list(rows[column]) if column in names else [None] * len(rows)


def _check_prompts(rows: Sequence[Any], column: str) -> None:
    columns = getattr(rows, "column_names", None)
    if columns is None:
        other = next((i for i, row in enumerate(rows) if not isinstance(row, Mapping)), None)
        if other is not None:
            raise ConfigError(f"row {other} is {rows[other]!r:.50}: every row is a dict of columns")
        columns = list(rows[0]) if len(rows) else [column]
    elif hasattr(rows, "format"):  # of which the columns that it leaves out are not given
        columns = rows.format["columns"]
    if column not in columns:
        raise ConfigError(
            f"the rows have no column {column!r} with the prompts; they have {', '.join(map(str, columns))}: "
            "name the column that holds the prompts, or rename it to 'prompt'"
        )


def _with_prompts(rows: Any, column: str) -> Any:
    """The rows with what is in this column as their `prompt`."""
    if column == "prompt":
        return rows
    if not hasattr(rows, "rename_column"):
        return [{**row, "prompt": row.get(column)} for row in rows]
    return rows.select_columns([name for name in rows.column_names if name != "prompt"]).rename_column(
        column, "prompt"
    )


def check_same_rows(size: int, identity: str, rows: Any, name: str) -> None:
    """Refuse a curriculum whose size and fingerprint are not those of the rows that a host trains on."""
    if size != len(rows.keys):
        raise ConfigError(f"the curriculum is over {size} prompts, {name} has {len(rows.keys)}")
    # a curriculum that was built from a bare number says so in place of a fingerprint
    if identity not in (f"{size} prompts", rows.fingerprint, fingerprint(rows.keys)):
        raise ConfigError(
            f"the curriculum has the prompts of another data set than {name}, or in another order: their "
            f"fingerprints begin with {abbreviated(identity)} and {abbreviated(rows.fingerprint)}; build "
            f"the curriculum from {name} itself, as prompts={name}"
        )


class _InBatches:
    """The rows of a `datasets.Dataset`, which takes ten times as long to give them one by one."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.dataset.iter(8192):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))


def without_nulls(value: Any) -> Any:
    """Messages without the nulls with which Arrow gives each object in a column the names of all."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def answer_of(row: Mapping[str, Any], column: str | None) -> str | None:
    """The answer of a row: text as it is, any other value as JSON (5 is "5"), or as it is written.

    Parquet has decimals, dates and bytes, which JSON lacks. Bytes are text in UTF-8.

    Raises:
        ConfigError: bytes are not UTF-8.
    """
    answer = plain_value(value_at(row, column)) if column else None
    if answer is None or isinstance(answer, str):
        return answer
    if isinstance(answer, float) and math.isnan(answer):  # pandas' word for none
        return None
    if isinstance(answer, bool | int | list | dict):
        return json.dumps(answer, default=str)
    return as_written(answer)


def plain_value(value: Any) -> Any:
    """A value of a data file with bytes as text, arrays as lists, and numbers in lists as they were written.

    Raises:
        ConfigError: bytes are not UTF-8.
    """
    value = decoded(value.tolist() if hasattr(value, "tolist") else value)
    if isinstance(value, dict):
        return {name: _inside(inner) for name, inner in value.items()}
    return [_inside(inner) for inner in value] if isinstance(value, list | tuple | set) else value


def _inside(value: Any) -> Any:
    """A value in a list or an object, where JSON has numbers."""
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return float(as_written(value)) if isinstance(value, float) else plain_value(value)


def as_written(value: Any) -> str:
    """A value, such as a number, as whoever made the data wrote it, which is how a completion gives it.

    In a column with a row without a number pandas makes 5.0 of 5. In a column of 32-bit numbers 0.1 is
    0.10000000149011612; 0.000244140625, which has fewer digits, is itself. A column of decimals gives all of
    them the same number of digits.
    """
    if isinstance(value, Decimal):
        whole, _, fraction = f"{value:f}".partition(".")
        return f"{whole}.{digits}" if (digits := fraction.rstrip("0")) else whole
    if not isinstance(value, float):
        return str(value)
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    text = float.__repr__(value)
    digits_written = sum(map(str.isdigit, text.partition("e")[0].lstrip("-0.")))
    if digits_written > 15 and abs(value) < 3e38 and float(np.float32(value)) == value:
        return str(np.float32(value))
    return text


def value_at(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column, None if there is none; `a.b` is b of the nested column a, which may be JSON."""
    if column in row:
        return row[column]
    outer, _, inner = column.partition(".")
    nested = nested_value(row.get(outer)) if inner else None
    return value_at(nested, inner) if isinstance(nested, dict) else None


def nested_value(value: Any) -> Any:
    """A column's value; text that is a JSON object or array of objects, as CSV stores them, as that."""
    if isinstance(value, str) and re.match(r"\s*(\{|\[\s*\{)", value):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def decoded(value: Any) -> Any:
    """A value, bytes as text: Parquet's binary columns hold text without saying so.

    Raises:
        ConfigError: bytes are not UTF-8.
    """
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"bytes that are not UTF-8 ({value[:20]!r}): store text") from None


def first_column(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> str | None:
    """The first of these columns that has a value in some row; `a.b` is b of the nested column a."""
    return next((c for c in columns if any(value_at(row, c) is not None for row in rows)), None)

"""The problems of a suite as prompts."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from curro.data import DataError, PromptSet
from curro.data.columns import value_at
from curro.data.load import raw_rows
from curro.data.raw import RawRow, Rows
from curro.evaluation.code_suites import READERS
from curro.evaluation.suites import Suite


def suite_prompts(
    suite: Suite, *, data: str | None = None, limit: int | None = None, chat: bool = True
) -> PromptSet:
    """The problems of a suite, in its own order; a row's key is its number.

    Args:
        suite: what to load.
        data: a file or folder with the suite's own columns, in place of the hub.
        limit: the first so many.
        chat: a prompt is a conversation of one message; else plain text.

    Raises:
        DataError: the data set cannot be loaded, is empty, or lacks a column or an answer.
    """
    source = data or suite.data
    packaged = _packaged(suite) if data is None else None
    raw = list(islice(packaged or raw_rows(source, suite.split, limit), limit))
    if not raw:
        raise DataError(f"{source} is empty: the suite {suite.name} has no problem")
    rows = []
    for number, found in enumerate(raw):
        problem, answer = (value_at(found.row, column) for column in (suite.prompt, suite.answer))
        for column, value in ((suite.prompt, problem), (suite.answer, answer)):
            if value is None or value == "" or value == []:
                raise DataError(
                    f"row {number} ({found.where}) has no {column!r}: the suite {suite.name} needs one; the "
                    f"columns are {', '.join(found.row)}"
                )
        more = _read(suite, found) if suite.reader else {"answer": _answer(answer), "problem": problem}
        text = suite.instruction.format(problem=more.pop("problem"))
        rows.append(
            {
                **found.row,
                "answer": None,
                "tests": None,
                **more,
                "prompt": [{"role": "user", "content": text}] if chat else text,
                "key": f"{suite.name}/{number}",
            }
        )
    return PromptSet(rows, source=source)


def _packaged(suite: Suite) -> Rows | None:
    """The rows in a file of the suite's package, which is not imported; None where it is not installed."""
    spec = find_spec(suite.package[0]) if suite.package else None
    if suite.package is None or spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / suite.package[1]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return iter([RawRow(path.name, f":{i}", json.loads(line)) for i, line in enumerate(lines, 1)])


def _read(suite: Suite, found: RawRow) -> dict[str, Any]:
    try:
        return READERS[suite.reader or ""](found.row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise DataError(f"{found.where} is no problem of the suite {suite.name}: {what:.200}") from None


def _answer(value: Any) -> str:
    """Text; several answers are one list, as math-verify reads it."""
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)

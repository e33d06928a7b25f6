"""Which data set this is: one fingerprint, the same by whatever route the data came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from curro.data.columns import ANSWER, answer_of, first_column


def fingerprint(prompts: Iterable[Any], answers: Iterable[Any] | None = None) -> str:
    """SHA-256, as 64 hex digits, over the prompts and their answers in their order.

    Keys take no part, because each route has its own where the data has none: a prompt is the number of its
    row. In messages, fields that are None take no part, because Arrow adds them.

    Args:
        prompts: text or messages, one a row.
        answers: text or None, one a row; None where there are none at all.
    """
    digest = hashlib.sha256()
    if answers is None:
        for prompt in prompts:
            digest.update(fingerprint_line(prompt, None))
    else:
        for prompt, answer in zip(prompts, answers, strict=True):
            digest.update(fingerprint_line(prompt, answer))
    return digest.hexdigest()


def fingerprint_of_rows(rows: Iterable[Mapping[str, Any]], prompt_column: str = "prompt") -> str:
    """`fingerprint` of rows as a framework has them; the answer's column is found as `load_prompts` does.

    Args:
        rows: N rows; of a `datasets.Dataset` the columns of prompts and answers alone are read, a batch at a
            time.
        prompt_column: text or messages. Rows that lack it may have `raw_prompt` instead, as verl's do.
    """
    answers: tuple[str, ...] = ANSWER
    columns = getattr(rows, "column_names", None)
    if columns is not None:
        answers = tuple(name for name in ANSWER if name.partition(".")[0] in columns)
        wanted = {prompt_column, "raw_prompt", *(name.partition(".")[0] for name in answers)}
        rows = _InBatches(rows.select_columns([name for name in columns if name in wanted]))  # type: ignore[attr-defined]
    answer = first_column(rows, answers)
    prompts = (row.get(prompt_column, row.get("raw_prompt")) for row in rows)
    return fingerprint(prompts, (answer_of(row, answer) for row in rows))


class _InBatches:
    """The rows of a `datasets.Dataset`, which takes ten times as long to give them one by one."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self.dataset.iter(8192):
            for values in zip(*batch.values(), strict=True):
                yield dict(zip(batch, values, strict=True))


def fingerprint_line(prompt: Any, answer: Any) -> bytes:
    """What a row adds to the fingerprint."""
    if isinstance(prompt, list):
        prompt = [
            {name: value for name, value in message.items() if value is not None}
            if isinstance(message, dict)
            else message
            for message in prompt
        ]
    return json.dumps([prompt, answer], sort_keys=True, default=str).encode() + b"\n"

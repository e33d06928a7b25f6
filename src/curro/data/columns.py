"""One form for the column conventions of several frameworks: rows with a prompt, an answer and a key.

| | prompt | answer | key |
|---|---|---|---|
| verl | `prompt` (messages) | `reward_model.ground_truth` | `data_source`, file, `extra_info.index` |
| TRL | `prompt` (text or messages) | `answer`, `solution`, `ground_truth` | |
| plain | `question`, `problem` | `answer` | `key` |
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import Any

from curro.core.errors import ConfigError
from curro.core.identity import (
    ANSWER,
    answer_columns,
    answer_of,
    decoded,
    first_column,
    nested_value,
    value_at,
)
from curro.data.raw import DataError, RawRow

PROMPT = ("prompt", "question", "problem")


def normalise(
    raw: list[RawRow], *, prompt: str | None, answer: str | None, key: str | None
) -> list[dict[str, Any]]:
    """Give every row `prompt`, `answer` and `key`, in place of columns of these names; the others stay.

    Args:
        raw: the rows, N of them.
        prompt, answer, key: the columns to take, by name; None for the conventions.

    Raises:
        DataError: a named column is missing, no convention has a prompt, a prompt is empty or neither text
            nor messages or of another kind than the first row's, rows have their answers in different
            columns, a text is not Unicode, a column's name holds a zero character, a conversation or an
            object is written as Python prints it, two rows have one key.
    """
    rows = [one.row for one in raw]
    prompt_column = _named(rows, prompt, "prompt") or first_column(rows, PROMPT)
    if prompt_column is None:
        raise DataError(f"no column of {_columns(rows)} holds prompts: name it with prompt_column")
    answer_column = _named(rows, answer, "answer") or first_column(rows, answer_columns(rows[0]))
    key_column = _named(rows, key, "key") or first_column(rows, ("key",))
    places = [f"row {i} ({one.where})" for i, one in enumerate(raw)]
    normal: list[dict[str, Any]] = []
    for row, at in zip(rows, places, strict=True):
        text = _prompt(row, prompt_column, at)
        if normal and isinstance(text, str) is not isinstance(normal[0]["prompt"], str):
            kinds = "text, row 0 messages" if isinstance(text, str) else "messages, row 0 text"
            raise DataError(f"{at} has a prompt of {kinds}: use one kind throughout")
        if answer is None and answer_column is not None:
            _refuse_other_answers(row, answer_column, at)
        if any("\0" in name for name in row):
            raise DataError(f"{at} has a column with a zero character in its name: rename it")
        normal.append({**row, "prompt": text, "answer": _answer(row, answer_column, at)})
    if key_column is None:
        keys = _verl_keys(raw) or _numbered([content_hash(row["prompt"], row["answer"]) for row in normal])
    else:
        keys = _column_keys(rows, key_column, places)
    for row, name, at in zip(normal, keys, places, strict=True):
        row["key"] = name
        _refuse_surrogates(row, at)
    return normal


def content_hash(*parts: Any) -> str:
    """128 bits of SHA-256 over the parts, as 32 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _answer(row: dict[str, Any], column: str | None, at: str) -> str | None:
    _refuse_printed(row.get("reward_model"), "reward_model", at)
    try:
        return answer_of(row, column)
    except ConfigError as error:
        raise DataError(f"{at}: {column!r} holds {error}") from None


_PRINTED = re.compile(r"\s*\[?\s*\{\s*'(?:role|content|from|value|style|ground_truth)':")


def _refuse_printed(value: Any, column: str, at: str) -> None:
    """What pandas makes of messages in CSV, `{'role': 'user'}`, is not JSON but would pass for text."""
    if isinstance(value, str) and _PRINTED.match(value):
        raise DataError(
            f"{at}: {column!r} holds {value:.40}..., an object as Python prints it: write it as JSON"
        )


def _prompt(row: dict[str, Any], column: str, at: str) -> Any:
    try:
        prompt = _messages(decoded(value_at(row, column)))
    except ConfigError as error:
        raise DataError(f"{at}: {column!r} holds {error}") from None
    _refuse_printed(prompt, column, at)
    if prompt is None:
        raise DataError(f"{at} has no {column!r}: every row needs a prompt")
    if isinstance(prompt, str):
        if not prompt.strip():
            raise DataError(f"{at} has an empty {column!r}: every row needs a prompt")
        return prompt
    if not isinstance(prompt, list):
        kind = type(prompt).__name__
        raise DataError(f"{at}: {column!r} is {kind}, neither text nor a list of {{role, content}} messages")
    for message in prompt:
        has_role = isinstance(message, dict) and isinstance(message.get("role"), str)
        content = message.get("content") if has_role else 0
        has_content = isinstance(content, str | list | None)
        has_content &= not isinstance(content, list) or all(isinstance(part, dict) for part in content)
        if not has_content or not ({"content", "tool_calls", "function_call"} & set(message)):
            raise DataError(
                f"{at}: {column!r} holds a message without role and content (a text, or a list of objects): "
                f"{str(message)[:80]}"
            )
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(map(_is_call, calls)):
            raise DataError(
                f"{at}: {column!r} holds tool_calls that are no list of {{function: {{name, arguments}}}}: "
                f"{calls!r:.80}"
            )
    if not any(message.get("content") for message in prompt):
        raise DataError(f"{at} has an empty {column!r}: every row needs a prompt")
    # chat templates read the content of every message, also of one that only calls tools
    return [message if "content" in message else {**message, "content": None} for message in prompt]


def _is_call(call: Any) -> bool:
    described = call.get("function", call) if isinstance(call, dict) else None
    return isinstance(described, dict) and isinstance(described.get("name"), str)


def _messages(prompt: Any) -> Any:
    """A prompt, or the messages of one that is their JSON, as some Parquet files store conversations."""
    messages = nested_value(prompt)
    if not isinstance(messages, list):
        return prompt
    is_conversation = all(isinstance(message, dict) and "role" in message for message in messages)
    return messages if is_conversation else prompt


def _refuse_other_answers(row: dict[str, Any], column: str, at: str) -> None:
    """Files with different columns of answers would lose one's answers; a null in `column` is no answer."""
    other = None if _has(row, column) else first_column([row], ANSWER)
    if other is not None:
        raise DataError(
            f"{at} has its answer in {other!r}, where other rows have it in {column!r}: give the column one "
            "name, or name the one to take with answer_column"
        )


def _refuse_surrogates(value: Any, at: str) -> None:
    r"""Halves of a character, as JSON's "\ud83d" alone, are no text: tokenizers and files refuse them."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{at} holds half a character ({error.object[error.start]!a}): mend its text"
        ) from None


def _column_keys(rows: list[dict[str, Any]], column: str, places: list[str]) -> list[str]:
    keys: dict[str, str] = {}
    for row, at in zip(rows, places, strict=True):
        value = value_at(row, column)
        if value is None or value == "":
            raise DataError(f"{at} has no key in {column!r}: give every row one")
        key = value if isinstance(value, str) else json.dumps(value, default=str)
        if key in keys:
            raise DataError(
                f"{keys[key]} and {at} have the same key in {column!r}: make it unique, or name another "
                f"column with key_column (key {key!r})"
            )
        keys[key] = at
    return list(keys)


def _numbered(hashes: list[str]) -> list[str]:
    """The hashes as keys; repeated rows are numbered, and `PromptSet.notes` tells of them."""
    counts: Counter[str] = Counter()
    keys = []
    for key in hashes:
        counts[key] += 1
        keys.append(key if counts[key] == 1 else f"{key}-{counts[key]}")
    return keys


def _verl_keys(raw: list[RawRow]) -> list[str] | None:
    """data_source/index where that is unique, else data_source/file/index where that is, else None."""
    index = [(value_at(one.row, "data_source"), value_at(one.row, "extra_info.index")) for one in raw]
    if any(source is None or number is None for source, number in index):
        return None
    short_keys = [f"{source}/{number}" for source, number in index]
    long_keys = [f"{source}/{r.file}/{number}" for (source, number), r in zip(index, raw, strict=True)]
    return next((keys for keys in (short_keys, long_keys) if len(set(keys)) == len(keys)), None)


def _has(row: dict[str, Any], column: str) -> bool:
    outer, _, inner = column.partition(".")
    nested = nested_value(row.get(outer)) if inner else None
    return column in row or (isinstance(nested, dict) and _has(nested, inner))


def _named(rows: list[dict[str, Any]], column: str | None, role: str) -> str | None:
    if not isinstance(column, str | None):
        raise DataError(f"the {role} column is named by a text, not {column!r}")
    if column is not None and not any(_has(row, column) for row in rows):
        raise DataError(f"there is no {role} column {column!r}; the columns are {_columns(rows)}")
    return column


def _columns(rows: list[dict[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(name for row in rows for name in row)) or "none"

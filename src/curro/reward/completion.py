"""Columns that tell a reward a completion's length and whether it was cut, and answers found in its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.reward import key

TOKENS = "completion_tokens"
"""How many tokens the completion has, its end of sequence among them."""

CUT = "completion_cut"
"""Whether the limit of length cut the completion, so that it has no end of sequence."""


def with_facts(row: Row, ids: Sequence[int], ends: Collection[int]) -> dict[str, Any]:
    """The row with the columns `TOKENS` and `CUT` of its completion."""
    return {**row, TOKENS: len(ids), CUT: not ids or ids[-1] not in ends}


def token_count(reward: str, row: Row) -> int:
    """The completion's number of tokens."""
    return _fact(reward, row, TOKENS, "how many tokens its completion has")


def is_cut(reward: str, row: Row) -> bool:
    """Whether the completion was cut at the limit of length."""
    return _fact(reward, row, CUT, "whether its completion was cut")


def _fact(reward: str, row: Row, column: str, fact: str) -> Any:
    if column not in row:
        raise RewardError(
            f"the reward {reward!r} must know {fact}, and the row of the prompt {key(row)} "
            f"has no {column!r}: whoever calls the reward adds it to the row"
        )
    return row[column]


_TAIL = 20_000
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""What the last complete `\boxed{...}` (or `\fbox`) in the last 20,000 characters holds, stripped."""
    text = text[-_TAIL:]
    opened: list[int | None] = []  # where the content of each open brace starts; None for a brace of no box
    start, content = -1, None
    for token in _BRACES.finditer(text):
        if token[0] == "{":
            opened.append(None)
        elif token[0] != "}":
            if token[0].endswith("{") and len(token[0]) > 2:
                opened.append(token.end())
        elif opened:
            begin = opened.pop()
            if begin is not None and begin > start:
                start, content = begin, text[begin : token.start()].strip()
    return content


def after_hashes(text: str) -> str | None:
    """The line after the last `####`, as GSM8K ends its answers, stripped."""
    _, mark, tail = text[-_TAIL:].rpartition("####")
    return tail.strip().split("\n", 1)[0].strip() if mark else None


def in_answer_tags(text: str) -> str | None:
    """What stands in the last complete `<answer>...</answer>`, stripped."""
    before, mark, _ = text[-_TAIL:].rpartition("</answer>")
    _, opening, content = before.rpartition("<answer>")
    return content.strip() if mark and opening else None


def final_answer(text: str) -> str | None:
    r"""The last boxed answer, else the one after `####`, else None."""
    boxed = last_boxed(text)
    return after_hashes(text) if boxed is None else boxed

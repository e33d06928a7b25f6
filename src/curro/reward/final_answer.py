"""Where in a completion the answer stands. All scans are linear in the text, whatever it holds."""

from __future__ import annotations

import re

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
    _, mark, rest = text[-_TAIL:].rpartition("####")
    return rest.strip().split("\n", 1)[0].strip() if mark else None


def in_answer_tags(text: str) -> str | None:
    """What stands in the last complete `<answer>...</answer>`, stripped."""
    before, mark, _ = text[-_TAIL:].rpartition("</answer>")
    _, opening, content = before.rpartition("<answer>")
    return content.strip() if mark and opening else None


def final_answer(text: str) -> str | None:
    r"""The last boxed answer, else the one after `####`, else None."""
    boxed = last_boxed(text)
    return after_hashes(text) if boxed is None else boxed

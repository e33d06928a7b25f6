"""What METIS shows of a programming problem: `strip=statements:prose`, with this folder on PYTHONPATH."""

from __future__ import annotations

import re

_FORMAL = re.compile(
    r"^[#*\s]*(constraints?|input|output|examples?|sample (?:input|output)|notes?)\b[^\n]*$",
    re.IGNORECASE | re.MULTILINE,
)


def prose(text: str) -> str:
    """The statement without its formal sections, "Internalizing Curriculum Judgment", appendix A.2.

    It ends where the first line begins with Constraints, Input, Output, Example or Note.
    """
    found = _FORMAL.search(text)
    return (text[: found.start()] if found else text).strip()

"""What METIS shows of a problem: `strip=statements:problem` or `prose`, with this folder on PYTHONPATH."""

from __future__ import annotations

import re

from curro.training.evaluation.suites import BOXED

_NAME = (
    r"(?:constraints?|(?:sample |example )?(?:input|output)s?(?: format| data| and output)?|examples?|notes?)"
    r"(?: (?:#|no\. ?)?\d+)?"
)
_HEADING = re.compile(
    rf"^[ \t]*(?:"
    rf"#+[ \t]*{_NAME}\b[^\n]*"  # of Markdown: the rest of its line belongs to it
    rf"|-{{2,}}[ \t]*{_NAME}[ \t]*-{{2,}}"
    rf"|[*_]{{1,3}}{_NAME}[ \t]*:?[*_]{{1,3}}:?[^\n]*"
    rf"|{_NAME}[ \t]*:?"  # alone on its line
    rf"|{_NAME}:[ \t][^\n]*"
    rf")[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def problem(text: str) -> str:
    """The problem without the instruction for answers behind it, as appendix B.3 shows problems."""
    return text.partition(BOXED.format(problem=""))[0].strip()


def prose(text: str) -> str:
    """The statement without its formal sections, "Internalizing Curriculum Judgment", appendix A.2.

    It ends at the first heading of Constraints, Input, Output, Examples or Notes: a line that has nothing
    else, is marked as a heading (`## Input`, `**Input**`, `-----Input-----`) or goes on after a colon. A
    sentence that begins with such a word ("Note that ...") is prose.
    """
    heading = _HEADING.search(text)
    return (text[: heading.start()] if heading else text).strip()

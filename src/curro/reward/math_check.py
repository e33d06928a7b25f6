"""math-verify on one pair of texts; runs in a process of its own.

math-verify reads LaTeX with a grammar. Bare expressions go to SymPy's parser, which evaluates Python, but
only once a regular expression has found nothing in them but digits, white space and + - * / ^ ( ) and dots.
"""

from __future__ import annotations

from math_verify import parse
from math_verify import verify as math_equal


def warm() -> None:
    """Load what the first check would wait for: SymPy needs a second of processor time for a first power."""
    check((r"\boxed{\frac{1}{2}}", r"\boxed{0.5}"))
    check((r"\boxed{x^2+2x+1}", r"\boxed{(x+1)^2}"))


def check(job: tuple[str, str]) -> float:
    """1.0 if the second text's answer equals the first's, else 0.0. The time limits are the process's."""
    gold, answer = (parse(text, parsing_timeout=None) for text in job)
    return float(math_equal(gold, answer, timeout_seconds=None))

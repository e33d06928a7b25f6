"""Values that data sets and models write as JSON, or as Python writes them."""

from __future__ import annotations

import ast
import json
import warnings
from decimal import Decimal
from typing import Any


def value_of(text: str) -> Any:
    """The value that a text is in JSON, else as a literal of Python. Integers may have any length.

    Raises:
        ValueError: it is neither.
    """
    try:
        return json.loads(text, parse_int=_integer, strict=False)  # line ends within texts too
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd escapes in a model's strings
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"{text!r:.80} is neither JSON nor a literal of Python") from None


def read(value: Any) -> Any:
    """What a column holds: the value of a text that is one, None for another text, else the value itself."""
    if not isinstance(value, str):
        return value
    try:
        return value_of(value)
    except ValueError:
        return None


def _integer(digits: str) -> int:
    """A whole number of any length; `int` refuses more than 4,300 digits."""
    return int(Decimal(digits)) if len(digits) > 4000 else int(digits)

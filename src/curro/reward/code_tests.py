"""The tests of a programming problem, from the shapes in which data sets hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from curro.errors import RewardError
from curro.reward.reward import Row, key


@dataclass(frozen=True)
class Tests:
    """Runs with an input and an expected output, or statements that must not raise, or test cases.

    Attributes:
        runs: (standard input, expected standard output) of each run.
        asserts: each a test of its own.
        setup: what the asserts need, executed before them.
        unittests: source text with a class `TestCases` of the module `unittest`.
    """

    __test__ = False  # not pytest's

    runs: tuple[tuple[str, str], ...] = ()
    asserts: tuple[str, ...] = ()
    setup: str = ""
    unittests: str = ""


def read_tests(row: Row) -> Tests | None:
    """The tests of a row: of its column `tests`, else of its answer; None where it has neither.

    Shapes, as they are or as JSON:

    * `[{"input": ..., "output": ...}, ...]`, with `"fn_name"` for values in JSON instead of texts;
    * `{"inputs": [...], "outputs": [...]}`, with `"fn_name"`: arguments and what the function returns;
    * `["assert f(1) == 2", ...]`, or one text of Python. The row's `setup` is executed before;
    * `{"unittest": "class TestCases(unittest.TestCase): ..."}`.

    Raises:
        RewardError: the tests have none of these shapes, or there are none; the message has the prompt's key.
    """
    told = row.get("tests")
    if told is None:
        told = row.get("answer")
    if told is None:
        return None
    try:
        tests = _read(_from_json(told), str(row.get("setup") or ""))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RewardError(f"the tests of the prompt {key(row)} cannot be read: {error!r:.200}") from None
    if not (tests.runs or tests.asserts or tests.unittests):
        raise RewardError(f"the prompt {key(row)} has no tests")
    return tests


def _from_json(told: Any) -> Any:
    if not isinstance(told, str):
        return told
    try:
        return json.loads(told)
    except ValueError:
        return [told]


def _read(told: Any, setup: str) -> Tests:
    if isinstance(told, dict) and "unittest" in told:
        return Tests(unittests=_text(told["unittest"]))
    if isinstance(told, dict):
        function = told.get("fn_name")
        pairs = list(zip(told["inputs"], told["outputs"], strict=True))
    elif told and all(isinstance(one, str) for one in told):
        return Tests(asserts=tuple(told), setup=setup)
    else:
        function = next((one["fn_name"] for one in told if one.get("fn_name")), None)
        pairs = [(one["input"], one["output"]) for one in told]
    if function:
        return Tests(asserts=tuple(_call(function, *pair) for pair in pairs), setup=_CALLS + setup)
    return Tests(runs=tuple((_text(given), _text(expected)) for given, expected in pairs))


_CALLS = """
def _function(name):
    found = globals().get(name)
    return getattr(Solution(), name) if found is None else found

def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value

def _same(got, expected):
    got, expected = _plain(got), _plain(expected)
    return got == expected or (isinstance(expected, list) and [got] == expected)
"""
"""For functions by name, a method of a class Solution too. JSON has no tuples, and some sets wrap results."""


def _call(function: str, given: Any, expected: Any) -> str:
    """An assert for a call: a list of arguments, or a line of JSON for each; one result, or its JSON."""
    if not str(function).isidentifier():
        raise ValueError(f"fn_name {function!r} is no name of a function")
    arguments = given if isinstance(given, list) else [json.loads(line) for line in given.splitlines()]
    result = json.loads(expected) if isinstance(expected, str) and isinstance(given, str) else expected
    return f"assert _same(_function({function!r})(*{arguments!r}), {result!r})"


def _text(told: Any) -> str:
    if isinstance(told, list):
        return "\n".join(map(_text, told))
    if not isinstance(told, str):
        raise TypeError(f"an input or output is a text, not {told!r:.60}")
    return told


def same_output(output: bytes, expected: str) -> bool:
    """Whether two texts have the same words on the same lines; white space around them does not count."""
    return _lines(output.decode("utf-8", "replace")) == _lines(expected)


def _lines(text: str) -> Sequence[list[str]]:
    lines = [line.split() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines

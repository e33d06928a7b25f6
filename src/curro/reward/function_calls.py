"""Function calls against the expected ones, by the rules of the Berkeley Function-Calling Leaderboard."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.reward import Score, key

_LONGEST = 20_000
"""Characters of a text that is read."""


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        name: with its dots.
        positional: the values of arguments without a name.
        named: those of the others.
    """

    name: str
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


def parse_calls(text: str) -> list[Call] | None:
    """The calls of a text that holds nothing else: `[f(a=1), g.h("x")]`, with or without the brackets.

    A thought before `</think>` and a fence of backticks around the calls are left out.

    Returns:
        the calls in their order, possibly none (`[]`); None for any other text: prose, an argument that is
        no literal, unpacking.
    """
    text = text.rpartition("</think>")[2].strip()
    if text.startswith("```"):
        text = text.partition("\n")[2]
    text = text.strip("`\n ")
    if not text or len(text) > _LONGEST:
        return None
    text = ("" if text.startswith("[") else "[") + text + ("" if text.endswith("]") else "]")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of odd escapes in the model's strings
            tree = ast.parse(text, mode="eval").body
            return [_call(item) for item in tree.elts] if isinstance(tree, ast.List) else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call):
        raise ValueError("no call")
    named = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in named:
            raise ValueError("unpacking, or one name twice")
        named[keyword.arg] = ast.literal_eval(keyword.value)
    return Call(_name(node.func), tuple(ast.literal_eval(value) for value in node.args), named)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError("no name of a function")


_KINDS: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    """Right if the completion's function calls are the expected ones, in any order.

    A row's answer is a list, or its JSON, of `{NAME: {PARAMETER: [ALLOWED, ...]}}`; "" among the allowed
    values makes a parameter optional. An empty list expects that nothing is called. Where the row has the
    functions' descriptions in a column `function` (JSON schemas with BFCL's types), values must be of the
    types that they declare, an int also where a float is declared; else of the type of an allowed value.
    Texts are compared without case, spaces and `,./-_*^`. A call with an argument without a name is wrong.

    Source: the Berkeley Function-Calling Leaderboard (BFCL).

    Returns:
        1.0 where the calls are right, 0.0 where not, None where the row has no answer.

    Raises:
        RewardError: an answer that is no such list; the message has the prompt's key.
    """
    return [_score(completion, row) for completion, row in zip(completions, rows, strict=True)]


def _score(completion: str, row: Row) -> Score:
    if row["answer"] is None:
        return None
    expected, kinds = _read(row)
    calls = parse_calls(completion)
    if not expected:
        return float(not calls)
    if calls is None or len(calls) != len(expected):
        return 0.0
    return float(all_match(calls, expected, kinds))


def all_match(
    calls: Sequence[Call],
    expected: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]],
    kinds: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Whether each expected call, in order, takes the first remaining call that fits it, and none remains."""
    unmatched = list(calls)
    for expected_call in expected:
        ((name, allowed),) = expected_call.items()
        fits = next((call for call in unmatched if _fits(call, name, allowed, kinds.get(name))), None)
        if fits is None:
            return False
        unmatched = [call for call in unmatched if call is not fits]
    return not unmatched


def _fits(
    call: Call, name: str, allowed: Mapping[str, Sequence[Any]], declared: Mapping[str, Any] | None
) -> bool:
    if call.name != name or call.positional or not set(call.named) <= set(allowed):
        return False
    missing = set(allowed) - set(call.named)
    if declared is not None:
        required = declared.get("required", ())
        if not set(call.named) <= set(declared["properties"]) or missing & set(required):
            return False
    return all("" in allowed[parameter] for parameter in missing) and all(
        _is_allowed(value, allowed[parameter], declared and declared["properties"][parameter])
        for parameter, value in call.named.items()
    )


def _is_allowed(value: Any, allowed: Sequence[Any], declared: Mapping[str, Any] | None) -> bool:
    """Whether a value is an allowed one and of the declared type, else of the type of an allowed one."""
    kind = None if declared is None else _KINDS.get(declared["type"])
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is tuple and (declared is None or declared["type"] == "tuple"):
        value = list(value)
    example_type = next((type(choice) for choice in allowed if choice != ""), None)
    # where the examples are of another type than the declared one, they are names of variables
    is_variable = kind is not None and example_type is not None and example_type is not kind
    if kind is None:
        if not any(
            type(value) is type(choice) or {type(value), type(choice)} == {int, float} for choice in allowed
        ):
            return False
    elif (type(value) is not kind and type(value) is not example_type) or (
        type(value) is kind is list and not _items_fit(value, allowed, declared)
    ):
        return False
    if is_variable or (kind is not None and type(value) is not kind):
        return value in allowed
    if value == []:
        return value in allowed or "" in allowed
    if type(value) is dict:
        return any(_dict_fits(value, choice) for choice in allowed if isinstance(choice, dict))
    if type(value) is list and value and all(type(item) is dict for item in value):
        return any(
            isinstance(choice, list) and len(choice) == len(value) and all(map(_dict_fits, value, choice))
            for choice in allowed
        )
    return _plain(value) in [
        _plain(choice) for choice in allowed if type(value) is not str or type(choice) is str
    ]


def _items_fit(value: list[Any], allowed: Sequence[Any], declared: Mapping[str, Any] | None) -> bool:
    """Whether the items of a list have the type that is declared for them."""
    kind = _KINDS.get((declared or {}).get("items", {}).get("type", ""))
    return kind is None or all(
        type(item) is kind or any(type(item) is type(example) for choice in allowed for example in choice[:1])
        for item in value
    )


def _dict_fits(value: Mapping[str, Any], allowed: Any) -> bool:
    """Whether each value is allowed under its key, and each key that is missing is optional."""
    if not isinstance(allowed, dict) or not set(value) <= set(allowed):
        return False
    return all("" in allowed[name] for name in set(allowed) - set(value)) and all(
        _plain(item) in [_plain(choice) for choice in allowed[name]] for name, item in value.items()
    )


def _plain(value: Any) -> Any:
    """A text, or a list's texts, without what does not count."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    return (
        [_plain(item) if isinstance(item, str) else item for item in value]
        if isinstance(value, list)
        else value
    )


def _read(row: Row) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The expected calls, and the declared parameters by function."""
    try:
        expected = _from_json(row["answer"])
        functions = _from_json(row.get("function") or [])
        kinds = {description["name"]: description["parameters"] for description in functions}
        if not all(len(call) == 1 and isinstance(next(iter(call.values())), dict) for call in expected):
            raise ValueError("each is {NAME: {PARAMETER: [ALLOWED, ...]}}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RewardError(f"the expected calls of the prompt {key(row)} cannot be read: {error}") from None
    return expected, kinds


def _from_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value

"""Function calls against the expected ones, by the rules of the Berkeley Function-Calling Leaderboard."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curro.contrib.bfcl.call_texts import Broken, Call, Untyped, parse_calls, read_calls
from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.answers import begins_in_thought, is_placeholder, outside_thoughts, unanswered
from curro.reward.literals import read, value_of
from curro.reward.reward import Unscored, Verdict, key

_KINDS: dict[str, type | None] = {
    **dict.fromkeys(("string", "str", "char", "date"), str),
    **dict.fromkeys(("integer", "int", "long"), int),
    **dict.fromkeys(("float", "number", "double"), float),
    **dict.fromkeys(("boolean", "bool"), bool),
    **dict.fromkeys(("array", "list", "tuple", "set"), list),
    **dict.fromkeys(("dict", "object", "map"), dict),
    **dict.fromkeys(("null", "none"), type(None)),
    "any": str,
}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
    """Right if the completion's function calls are the expected ones, in any order.

    A completion may write its calls in any form of `curro.contrib.bfcl.call_texts`. A row's answer is a list,
    or its JSON, of `{NAME: {PARAMETER: [ALLOWED, ...]}}`, where "" among the allowed values makes a parameter
    optional, or calls in one of the forms of completions; in these an argument may be left out, or written,
    that has its declared default. An empty list expects a text without a call. If the
    row has the functions' descriptions in a column `function`, `functions` or `tools` (BFCL's, JSON schemas,
    OpenAI's, Anthropic's or xLAM's), values must be of the types that they declare, an int also where a float
    is declared. Else they must be of the type of an allowed value. Texts are compared without case, spaces
    and `,./-_*^`. A call with an argument without a name is wrong.

    Source: the Berkeley Function-Calling Leaderboard (BFCL).

    Returns:
        1.0 where the calls are right, 0.0 where not, None where the row has no answer, and the reason where
        its answer or a description cannot be read.

    Warns:
        RuntimeWarning: a type that is not known; its values are compared without a type. Or eight completions
            and more are wrong and no call can be read in any: the model may write another form.
    """
    scores = [_score(completion, row) for completion, row in zip(completions, rows, strict=True)]
    wrong = [text for text, score in zip(completions, scores, strict=True) if score == 0.0]
    if len(wrong) >= 8 and not any(map(parse_calls, completions)):
        mark = re.search(r"<[^<>\s]{1,40}>", outside_thoughts(wrong[0]) or wrong[0])
        warnings.warn(  # the same text each time, so that Python shows it once
            "reward 'function-calls': not one call can be read in a batch of completions that all score 0"
            f"{f', such as one with {mark[0]!r}' if mark else ''}: curro.contrib.bfcl.call_texts has the "
            "forms that are read",
            RuntimeWarning,
            stacklevel=2,
        )
    return scores


def _score(completion: str, row: Row) -> Verdict:
    answer = row["answer"]
    if answer is None or (not isinstance(answer, list) and answer != "[]" and is_placeholder(str(answer))):
        return unanswered(row)
    try:
        expected, parameters = _read(row)
    except RewardError as error:
        return Unscored(str(error), is_row=True)
    text = "<think>" + completion if begins_in_thought(row) else completion
    try:
        calls = read_calls(text)
    except Broken:
        return 0.0
    if not expected:
        return float(not calls and outside_thoughts(text).strip() != "")
    if calls is None or len(calls) != len(expected):
        return 0.0
    try:
        return float(all_match(calls, expected, parameters))
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        reason = (
            f"the functions of the prompt {key(row)} cannot be read: {type(error).__name__}: {error!s:.200}"
        )
        return Unscored(reason, is_row=True)


def all_match(
    calls: Sequence[Call],
    expected: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]],
    parameters: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Whether each expected call can have a call of its own that fits it, and none remains."""
    fitting = []
    for expected_call in expected:
        ((name, allowed),) = expected_call.items()
        fitting.append([i for i, c in enumerate(calls) if _fits(c, name, allowed, parameters.get(name))])
    taken: dict[int, int] = {}

    def finds(one: int, tried: set[int]) -> bool:
        for i in fitting[one]:
            if i not in tried:
                tried.add(i)
                if i not in taken or finds(taken[i], tried):
                    taken[i] = one
                    return True
        return False

    return len(calls) == len(expected) and all(finds(one, set()) for one in range(len(expected)))


_PACKED = re.compile(r"\A(?:functions|default_api)\.|\.call\Z")
"""What prompts for Llama and Gemma have around the name of a function."""


def _fits(
    call: Call, name: str, allowed: Mapping[str, Sequence[Any]], declared: Mapping[str, Any] | None
) -> bool:
    # null stands for what is left out
    values = {n: value for n, value in call.named.items() if value is not None or None in allowed.get(n, ())}
    # OpenAI's names have no dots
    is_called = not {name, name.replace(".", "_")}.isdisjoint((call.name, _PACKED.sub("", call.name)))
    if not is_called or call.positional or not set(values) <= set(allowed):
        return False
    missing = set(allowed) - set(values)
    if declared is not None:
        required = declared.get("required")
        required = required if isinstance(required, list) else []
        if not set(values) <= set(declared["properties"]) or missing & set(required):
            return False
    return all("" in allowed[parameter] for parameter in missing) and all(
        _is_allowed(value, allowed[parameter], declared and declared["properties"][parameter])
        for parameter, value in values.items()
    )


def _is_allowed(value: Any, allowed: Sequence[Any], schema: Mapping[str, Any] | None) -> bool:
    """Whether a value is an allowed one and of a declared type, else of the type of an allowed one."""
    values = [value]
    if isinstance(value, Untyped):
        values = [str(value)]
        with contextlib.suppress(ValueError):
            values.append(value_of(value))
    names = [""] if schema is None else list(_type_names(schema)) or [""]
    return any(_is_allowed_as(item, allowed, name, schema) for item in values for name in names)


def _type_names(schema: Mapping[str, Any]) -> Iterator[str]:
    """The types that a schema declares, each as `_KINDS` names it or "tuple"; none if it declares none."""
    schema = schema if isinstance(schema, Mapping) else {}  # true and false are schemas
    for variant in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ()), *(schema.get("allOf") or ())):
        yield from _type_names(variant)
    declared = schema.get("type")
    for text in declared if isinstance(declared, list) else [declared] if declared else []:
        text = re.sub(r"\boptional\b|\btyping\.", "", str(text).lower()).strip(" ,[]")
        text = text.removeprefix("union[")
        for name in re.split(r"\s*\|\s*|,\s*(?![^\[]*\])", text):
            name = name.partition("[")[0].strip()
            if name in _KINDS:
                yield name
            elif name:
                warnings.warn(
                    f"reward 'function-calls': the type {name!r:.60} of a parameter is not known; such "
                    "values are compared without a type",
                    RuntimeWarning,
                    stacklevel=2,
                )


def _is_allowed_as(value: Any, allowed: Sequence[Any], name: str, schema: Mapping[str, Any] | None) -> bool:
    kind = _KINDS.get(name)
    if kind is type(None) or value is None:
        return value is None and None in allowed
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is tuple and (schema is None or name == "tuple"):
        value = list(value)
    example_type = next((type(choice) for choice in allowed if choice != ""), None)
    # examples that have another type than the declared one are names of variables
    is_variable = kind is not None and example_type is not None and example_type is not kind
    if kind is None:
        if not any(
            type(value) is type(choice) or {type(value), type(choice)} == {int, float} for choice in allowed
        ):
            return False
    elif (type(value) is not kind and type(value) is not example_type) or (
        type(value) is kind is list and not _items_fit(value, allowed, schema)
    ):
        return False
    if is_variable or (kind is not None and type(value) is not kind):
        return value in allowed
    if value == []:
        return value in allowed or "" in allowed
    return any(
        _value_fits(value, choice) for choice in allowed if type(value) is not str or type(choice) is str
    )


def _value_fits(value: Any, choice: Any) -> bool:
    """Whether a value is an allowed one; each dict in it has a list of allowed values for each key."""
    if isinstance(value, dict):
        return _dict_fits(value, choice)
    if isinstance(value, list):
        return isinstance(choice, list) and len(value) == len(choice) and all(map(_value_fits, value, choice))
    return bool(_plain(value) == _plain(choice))


def _items_fit(value: list[Any], allowed: Sequence[Any], schema: Mapping[str, Any] | None) -> bool:
    """Whether the items of a list have the type that is declared for them."""
    items = (schema or {}).get("items")
    kinds = [_KINDS[name] for name in _type_names(items)] if isinstance(items, Mapping) else []
    kinds += [int] * (float in kinds)
    return not kinds or all(
        type(item) in kinds
        or any(type(item) is type(example) for choice in allowed for example in choice[:1])
        for item in value
    )


def _dict_fits(value: Mapping[str, Any], allowed: Any) -> bool:
    """Whether each value is allowed under its key, and each key that is missing is optional."""
    if not isinstance(allowed, dict) or not set(value) <= set(allowed):
        return False
    allowed = {name: item if isinstance(item, list) else [item] for name, item in allowed.items()}
    return all("" in allowed[name] for name in set(allowed) - set(value)) and all(
        any(item == choice or _value_fits(item, choice) for choice in allowed[name])
        for name, item in value.items()
    )


def _plain(value: Any) -> Any:
    """A text without what does not count, or another value."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _read(row: Row) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The expected calls, and the declared parameters by function."""
    try:
        expected = _expected(row["answer"])
        functions = next((row[name] for name in ("function", "functions", "tools") if row.get(name)), None)
        described = dict(_described(read(functions) or []))
        if not _has_form_of_bfcl(row["answer"]):
            _add_defaults(expected, described)
        return expected, described
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RewardError(f"the expected calls of the prompt {key(row)} cannot be read: {error}") from None


def _expected(answer: Any) -> list[dict[str, Any]]:
    """The expected calls as `{NAME: {PARAMETER: [ALLOWED, ...]}}`."""
    items = _items(answer)
    if _has_form_of_bfcl(answer):
        return [dict(items)] if isinstance(items, Mapping) else list(items)
    if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
        answer = "; ".join(items) if items[0].startswith("{") else ", ".join(items)
    calls = read_calls(answer if isinstance(answer, str) else json.dumps(answer))
    if calls is None or any(call.positional for call in calls):
        raise ValueError("each is {NAME: {PARAMETER: [ALLOWED, ...]}} or a call with named arguments")
    return [
        {call.name: {name: [_only(value)] for name, value in call.named.items() if value is not None}}
        for call in calls
    ]


def _add_defaults(expected: Sequence[dict[str, Any]], described: Mapping[str, Any]) -> None:
    """Allows that plain calls write, or leave out, an argument that has its declared default."""
    for call in expected:
        for name, allowed in call.items():
            for parameter, schema in described.get(name, {"properties": {}})["properties"].items():
                if isinstance(schema, Mapping) and "default" in schema:
                    default = [_only(schema["default"])]
                    given = allowed.get(parameter, default)
                    allowed[parameter] = [*given, ""] if given == default else given


def _items(answer: Any) -> Any:
    """An answer's data, None where it has none, without functions and parameters that are null.

    Arrow gives each object of a column the names of all.
    """

    def given(item: Any, depth: int) -> Any:
        if isinstance(item, list):
            return [given(one, depth) for one in item]
        if not isinstance(item, Mapping) or not depth:
            return item
        return {name: given(value, depth - 1) for name, value in item.items() if value is not None}

    items = read(answer)
    return given(items, 2) if isinstance(items, list | Mapping) else items


def _has_form_of_bfcl(answer: Any) -> bool:
    items = _items(answer)
    items = [items] if isinstance(items, Mapping) else items
    return isinstance(items, list) and all(map(_has_allowed_values, items))


def _has_allowed_values(item: Any) -> bool:
    """Whether an expected call has BFCL's form."""
    if not isinstance(item, Mapping) or len(item) != 1:
        return False
    (parameters,) = item.values()
    return isinstance(parameters, Mapping) and all(
        isinstance(allowed, list) for allowed in parameters.values()
    )


def _only(value: Any) -> Any:
    """A value as BFCL writes one that is allowed alone: a dict has a list of allowed values for each key.

    "" would make it optional, and a space is the same text.
    """
    if isinstance(value, dict):
        return {name: [_only(item)] for name, item in value.items()}
    return [_only(item) for item in value] if isinstance(value, list) else " " if value == "" else value


def _described(functions: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the schema of each described function that has parameters."""
    for description in [functions] if isinstance(functions, Mapping) else functions:
        description = read(description)
        if isinstance(description.get("function"), Mapping):  # OpenAI's wrapper
            description = description["function"]
        schema = read(description.get("parameters") or description.get("input_schema") or {})
        if "properties" not in schema and all(isinstance(value, Mapping) for value in schema.values()):
            schema = {"properties": schema}  # xLAM's form
        if schema.get("properties"):
            yield description["name"], schema


def example(row: Row) -> str | None:
    """A completion with the row's expected calls as JSON, or a sentence if none is expected.

    None for a row without an answer.
    """
    if row.get("answer") is None:
        return None
    try:
        expected, _ = _read(row)
    except RewardError:
        return ""
    calls = [
        {
            "name": name,
            "arguments": {
                parameter: _example_value(allowed)
                for parameter, allowed in parameters.items()
                if "" not in allowed
            },
        }
        for call in expected
        for name, parameters in call.items()
    ]
    return json.dumps(calls) if calls else "There is nothing to call."


verify.example = example  # type: ignore[attr-defined]  # for the check before a run


def _example_value(allowed: Sequence[Any]) -> Any:
    value = next(iter(allowed), None)
    if isinstance(value, dict):  # its values are lists of allowed ones
        return {
            name: _example_value(choices if isinstance(choices, list) and choices else [choices])
            for name, choices in value.items()
            if not (isinstance(choices, list) and "" in choices)
        }
    if isinstance(value, list):
        return [_example_value([item]) for item in value]
    return value

"""Calls as they are read, and against expected ones; environments/bfcl compares with BFCL's checker."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.core.errors import RewardError
from curro.reward import resolve_reward
from curro.reward.function_calls import Call, parse_calls

CALLS = resolve_reward("function-calls")
ANSWER = [
    {"plan.trip": {"city": ["Paris", "Paris, FR"], "days": [3], "stops": ["", ["Lyon"]], "speed": ["", 2.5]}}
]


def score(text: str, answer: object = ANSWER, **columns: object) -> float | None:
    return CALLS.score([text], [{"answer": answer, "key": "k", **columns}])[0]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (
            "[f(a=1), g.h('x', b=[-2, (3,)])]",
            [Call("f", (), {"a": 1}), Call("g.h", ("x",), {"b": [-2, (3,)]})],
        ),
        ("f()", [Call("f")]),
        ("[]", []),
        ("<think>hm</think>\n```python\n[f(x={'a': True})]\n```", [Call("f", (), {"x": {"a": True}})]),
        ("", None),
        ("Sure: f(a=1)", None),
        ("f(a=b)", None),
        ("f(a=2*3)", None),
        ("f(a=g(1))", None),
        ("f(**{'a': 1})", None),
        ("f(*[1])", None),
        ("f(1)(2)", None),
        ("[f(a=[x for x in 'ab'])]", None),
        ("f(a=1, a=2)", None),
        ("(lambda: 1)()", None),
        ("[f(), 5]", None),
        ("f(" * 5000 + ")" * 5000, None),
        ("f(a=" + "[" * 5000 + "]" * 5000 + ")", None),
        ("f(a=" + "-" * 15000 + "1)", None),
        ("f(a='" + "x" * 30_000 + "')", None),
        ("f(a=\0)", None),
    ],
)
def test_what_is_a_list_of_calls(text, calls):
    assert parse_calls(text) == calls


@given(st.text(max_size=60) | st.text(alphabet="f(a=1,[]{}'\"\\.*) ", max_size=40))
def test_any_text_is_calls_or_none(text):
    assert parse_calls(text) is None or all(isinstance(call, Call) for call in parse_calls(text))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("[plan.trip(city='Paris', days=3)]", 1.0),
        ("plan.trip(days=3, city='PARIS FR')", 1.0),
        ("plan.trip(city='Paris', days=3, stops=['lyon'], speed=2.5)", 1.0),
        ("plan.trip(city='Paris', days=3, stops=[])", 1.0),
        ("plan.trip(city='Paris', days=3, stops=['Nice'])", 0.0),
        ("plan.trip(city='London', days=3)", 0.0),
        ("plan.trip(city='Paris')", 0.0),
        ("plan.trip(city='Paris', days='3')", 0.0),
        ("plan.trip(city='Paris', days=True)", 0.0),
        ("plan.trip(city='Paris', days=3, other=1)", 0.0),
        ("plan.trip('Paris', days=3)", 0.0),
        ("trip(city='Paris', days=3)", 0.0),
        ("[plan.trip(city='Paris', days=3), plan.trip(city='Paris', days=3)]", 0.0),
        ("[]", 0.0),
        ("I cannot.", 0.0),
    ],
)
def test_names_values_and_what_is_optional(text, right):
    assert score(text) == score(text, json.dumps(ANSWER)) == right


def test_several_calls_in_any_order_each_used_once():
    answer = [{"f": {"a": [1, 2]}}, {"f": {"a": [1]}}, {"g": {}}]
    assert score("[g(), f(a=2), f(a=1)]", answer) == 1.0
    assert score("[g(), f(a=1), f(a=1)]", answer) == 1.0
    assert score("[g(), f(a=2), f(a=2)]", answer) == 0.0
    assert score("[g(), g(), f(a=1)]", answer) == 0.0


def test_nothing_to_call():
    assert [score(text, []) for text in ("I cannot do that.", "[]", "f()")] == [1.0, 1.0, 0.0]
    assert score("f()", None) is None


def test_declared_types():
    """An int where a float is declared; no float where an int is; whatever a dict's keys allow."""
    properties = {
        "x": {"type": "float"},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "d": {"type": "dict"},
    }
    function = [{"name": "f", "parameters": {"type": "dict", "properties": properties, "required": ["x"]}}]
    answer = [
        {"f": {"x": [5.0, ""], "n": ["", 2], "l": ["", [1, 2]], "d": ["", {"a": ["U S"], "b": [1, ""]}]}}
    ]
    for text, right in {
        "f(x=5)": 1.0,
        "f(n=2)": 0.0,  # x is required, whatever is allowed
        "f(x=5, n=2.0)": 0.0,
        "f(x=5, l=[1, 2])": 1.0,
        "f(x=5, l=[1, 2.0])": 0.0,
        "f(x=5, d={'a': 'us'})": 1.0,
        "f(x=5, d={'a': 'us', 'b': 2})": 0.0,
        "f(x=5, d={'b': 1})": 0.0,
        "f(x=5, d={'a': 'us', 'c': 1})": 0.0,
    }.items():
        assert score(text, answer, function=json.dumps(function)) == right, text


@pytest.mark.parametrize("answer", ["f(a=1)", "[5]", '[{"f": {}, "g": {}}]', '{"f": 1}'])
def test_answers_that_are_no_calls(answer):
    with pytest.raises(RewardError, match="the expected calls of the prompt 'k' cannot be read"):
        score("f(a=1)", answer)

# ruff: noqa: E501, RUF001  (DeepSeek's marks have full-width bars)
"""Calls as they are read, and against expected ones; tests/contrib/bfcl compares with BFCL's checker."""

from __future__ import annotations

import json
import warnings

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.contrib.bfcl.call_texts import Call, Untyped, parse_calls
from curro.contrib.bfcl.function_calls import example
from curro.reward import resolve_reward

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
        ("f()</s>", [Call("f")]),
        ("<answer>f()</answer>", [Call("f")]),
        (
            "[Get It(a=true), Get That(b='x y(')]",
            [Call("Get It", (), {"a": True}), Call("Get That", (), {"b": "x y("})],
        ),
        ("[]", []),
        ("<think>hm</think>\n```python\n[f(x={'a': True})]\n```", [Call("f", (), {"x": {"a": True}})]),
        ("", None),
        ("Sure: f(a=1)", None),
        ("print(a)", None),
        ('I call it.\n{"name": "f"', None),
        ("f(a=b)", None),
        ("f(a=2*3)", None),
        ("f(a=g(1))", None),
        ("f(**{'from': 1})", [Call("f", (), {"from": 1})]),
        ("[api.get-it(a=1)]", [Call("api.get-it", (), {"a": 1})]),
        ("Sure. I will call f(a=1)", None),
        ("[" * 19_000, None),
        ("[get-it(from=1, to-day='x-y = 2')]", [Call("get-it", (), {"from": 1, "to-day": "x-y = 2"})]),
        ('{"name": "f", "id": "c1", "a": 1}', [Call("f", (), {"a": 1})]),
        ('{"name": "f", "arguments": {"a": "1\n2"}}', [Call("f", (), {"a": "1\n2"})]),
        ('{"name": "f"} {"name": "g"}, {"name": "h"}', [Call("f"), Call("g"), Call("h")]),
        ('{"name": "f", "arguments": {"a": {}', None),
        ("f(**{'a': 1}, a=2)", None),
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


ONE = '{"name": "f", "arguments": {"a": 1}}'
FORMS = [
    ONE,
    '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>',
    '<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>',
    f"[{ONE}]",
    f"```json\n{ONE}\n```",
    f"I call it.\n```json\n[{ONE}]\n```",
    f"<tool_call>\n{ONE}\n</tool_call>",
    f"Let me see.\n<tool_call>{ONE}</tool_call><|im_end|>",
    f"<think>f(a=2)?</think>\n<tool_call>\n{ONE}",
    f"<function_call>{ONE}</function_call>",
    f"<|python_tag|>{ONE}<|eom_id|>",
    f"[TOOL_CALLS] [{ONE}]",
    '[TOOL_CALLS]f[ARGS]{"a": 1}',
    f"<|tool_call|>[{ONE}]<|/tool_call|>",
    '{"name": "f", "parameters": {"a": 1}}',
    """{'name': 'f', 'arguments': {'a': 1}}""",
    '{"name": "f", "arguments": "{\\"a\\": 1}"}',
    '{"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 1}"}}]}',
    '{"type": "tool_use", "name": "f", "input": {"a": 1}}',
    '{"function": "f", "args": {"a": 1}}',
    '{"action": "f", "action_input": {"a": 1}}',
    '{"f": {"a": 1}}',
    "<function=f><parameter=a>\n1\n</parameter></function>",
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    '<function=f>{"a": 1}</function>',
    '<invoke name="f"><parameter name="a">1</parameter></invoke>',
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    '<|channel|>analysis<|message|>hm<|end|><|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>',
    "```tool_code\nf(a=1)\n```",
    "<tool_call>[f(a=1)]</tool_call>",
    "[f(a=1)]",
    f"I call it.\n\n{ONE}\n\nIt is called.",
    "Sure: [f(a=1)]",
    "- **functions.f(a=1)**",
    "```python\nx = f(a=1)\nprint(x)\n```",
    'Thought: hm\nAction: f\nAction Input: {"a": 1}',
    f"<tools>{ONE}</tools>",
    'Thought: hm\nAction: f\nAction Input: {\n  "a": 1\n}',
    '✿FUNCTION✿: f\n✿ARGS✿: {"a": 1}\n✿RESULT✿',
    '[TOOL_CALLS]f[CALL_ID]abc[ARGS]{"a": 1}',
    'f\n{"a": 1}',
    f"<TOOLCALL>[{ONE}]</TOOLCALL>",
    f'<seed:tool_call id="1">{ONE}</seed:tool_call>',
    f"<|action_start|><|plugin|>{ONE}<|action_end|>",
    "<|python_start|>[f(a=1)]<|python_end|>",
    f"functools[{ONE}]",
    '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter></｜DSML｜invoke>',
    "```tool_code\nprint(default_api.f(a=1))\n```",
    '{"tool_name": "f", "tool_arguments": {"a": 1}}',
    'f({"a": 1})',
    "<start_function_call>call:f{a:1}<end_function_call><start_function_response>",
    "<start_function_call>call:f{a:<escape>1<escape>}<end_function_call>",
    "<|channel>thought\nf(a=2)?<channel|><|tool_call>call:f{a:1}<tool_call|>",
    "call:f{a:1}",
    'functions.f:0{"a": 1}',
    '<|tool_call_begin|> f:0 <|tool_call_argument_begin|> {"a": 1} <|tool_call_end|>',
    'analysisf(a=2)?assistantcommentary to=functions.f json{"a": 1}',
    '<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>',
    'to=functions.f code{"a": 1}',
    "Action: f\nAction Input: {'a': 1}",
    "[TOOL_CALLS]f[ARGS]{'a': 1}",
    "<tool_call>f\n{'a': 1}</tool_call>",
    'f{"a": 1}',
    '<|START_THINKING|>x<|END_THINKING|><|START_ACTION|>[\n  {"tool_name": "f", "parameters": {"a": 1}}\n]<|END_ACTION|>',
    "<longcat_tool_call>f\n<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n</longcat_tool_call>",
    '{"method": "f", "params": {"a": 1}}',
]


@pytest.mark.parametrize("text", FORMS)
def test_the_forms_of_models(text):
    answers = ([{"f": {"a": [1]}}], ONE, f"[{ONE}]", "[f(a=1)]", [{"name": "f", "arguments": {"a": 1}}])
    assert [score(text, answer) for answer in answers] == [1.0] * 5
    assert score(text, [{"f": {"a": [2]}}]) == score(text, [{"f": {"a": [1]}}, {"g": {}}]) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{ONE}</tool_call>\n<tool_call>{ONE.replace('1', '2')}</tool_call>",
        f"[{ONE}, {ONE.replace('1', '2')}]",
        f"{ONE}\n{ONE.replace('1', '2')}",
        f"<|python_tag|>{ONE}; {ONE.replace('1', '2')}",
        "f(a=1), f(a=2)",
        "f(a=1); await f(a=2)",
        "print(f(a=1))\nf(a=2)",
        "<start_function_call>call:f{a:1}<end_function_call><start_function_call>call:f{a:2}<end_function_call>",
        'assistantcommentary to=functions.f json{"a": 1}assistantcommentary to=functions.f json{"a": 2}',
        'functions.f:0{"a": 1}functions.f:1{"a": 2}',
    ],
)
def test_several_calls(text):
    assert parse_calls(text) == [Call("f", (), {"a": 1}), Call("f", (), {"a": 2})]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("{b:{c:<escape>x, d:}<escape>,e:[1,<escape>z<escape>]}}", {"b": {"c": "x, d:}", "e": [1, "z"]}}),
        ('{b:<|"|>it\'s "x"<|"|>,c:true,d:null}', {"b": 'it\'s "x"', "c": True, "d": None}),
        ("{b:Rome, IT,c:2}", {"b": "Rome, IT", "c": "2"}),
        ("{}", {}),
    ],
)
def test_arguments_without_quotes(text, arguments):
    assert parse_calls(f"<start_function_call>call:f{text}<end_function_call>") == [Call("f", (), arguments)]


def test_a_form_that_is_not_known_is_said_and_wrong_calls_are_not():
    rows = [{"answer": ANSWER, "key": "k"}] * 8
    with pytest.warns(RuntimeWarning, match="not one call can be read.*<weird_call>"):
        assert CALLS.score(["<weird_call>f|a=1</weird_call>"] * 8, rows) == [0.0] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS.score(["prose"] * 7 + ["f(a=1)"], rows)


def test_bare_texts_between_tags_are_of_the_type_that_is_asked_for():
    text = "<function=f><parameter=a>5</parameter></function>"
    assert parse_calls(text) == [Call("f", (), {"a": Untyped("5")})]
    assert [score(text, [{"f": {"a": [value]}}]) for value in (5, "5", 5.0, 6, True)] == [
        1.0,
        1.0,
        1.0,
        0.0,
        0.0,
    ]


INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (INTEGER, 1.0),
        ({"type": ["integer", "null"]}, 1.0),
        ({"anyOf": [INTEGER, {"type": "null"}]}, 1.0),
        ({"enum": [5, 6]}, 1.0),
        ({}, 1.0),
        (True, 1.0),
        ({"type": "INTEGER"}, 1.0),
        ({"type": "number"}, 1.0),
        ({"type": "int, optional"}, 1.0),
        ({"type": "Union[int, str]"}, 1.0),
        ({"type": "int | None"}, 1.0),
        ({"type": ["string", "array"]}, 0.0),
    ],
)
@pytest.mark.parametrize("form", ["BFCL", "OpenAI", "Anthropic", "xLAM", "JSON"])
def test_schemas(schema, right, form):
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    functions = {
        "BFCL": [{"name": "f", "parameters": parameters}],
        "OpenAI": [{"type": "function", "function": {"name": "f", "parameters": parameters}}],
        "Anthropic": [{"name": "f", "input_schema": parameters}],
        "xLAM": {"name": "f", "parameters": {"a": schema}},
        "JSON": json.dumps([{"name": "f", "parameters": parameters}]),
    }[form]
    column = {"OpenAI": "tools", "xLAM": "functions"}.get(form, "function")
    answer = [{"f": {"a": [5 if right else "x"]}}]
    assert score("f(a=5)", answer, **{column: functions}) == right


def test_functions_without_parameters_and_types_that_are_not_known():
    for description in ({"name": "f"}, {"name": "f", "parameters": None}, {"name": "f", "parameters": {}}):
        assert score("f()", [{"f": {}}], function=[description]) == 1.0
    function = [{"name": "f", "parameters": {"properties": {"a": {"type": "quaternion"}}}}]
    with pytest.warns(RuntimeWarning, match="type 'quaternion' of a parameter is not known"):
        assert score("f(a=5)", [{"f": {"a": [5]}}], function=function) == 1.0


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


@pytest.mark.parametrize(
    "value",
    [
        [{"a": False}, 3.5, "x y"],
        {"a": [True, 2]},
        {"a": {"b": [1, {"c": None}]}},
        [[["x"], [1]], {"a": [[2]]}],
        "```python\nprint(1)\n```",
        ["```"],
        "",
        {"a": ["", {"b": ""}]},
    ],
)
@pytest.mark.parametrize("form", ["%s", "```json\n%s\n```", "<tool_call>\n%s\n</tool_call>"])
def test_a_value_of_any_shape_is_itself_and_no_other(value, form):
    answer = json.dumps([{"name": "f", "arguments": {"v": value}}])
    assert score(form % answer[1:-1], answer) == score(example({"answer": answer}), answer) == 1.0
    assert score(form % json.dumps({"name": "f", "arguments": {"v": [value, 1]}}), answer) == 0.0


@pytest.mark.parametrize("value", ["", {"b": ""}])
def test_an_argument_of_plain_calls_is_not_optional(value):
    answer = json.dumps([{"name": "f", "arguments": {"a": value, "c": 1}}])
    assert score(answer, answer) == 1.0
    assert score("f(c=1)", answer) == score("f(a={}, c=1)", answer) == score("f(a='x', c=1)", answer) == 0.0


@pytest.mark.parametrize(
    "form",
    [
        '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>',
        "<function=f>%s</function>",
        "[TOOL_CALLS]f%s",
        '<tool_call>{"name": "f", "arguments": %s}',
    ],
)
@pytest.mark.parametrize(
    "value", ["a </tool_call> b", "<tool_call>{}</tool_call>", "</function>", "<b>", "\\u003c"]
)
def test_a_tag_within_a_text_ends_no_call(form, value):
    assert parse_calls(form % json.dumps({"a": value})) == [Call("f", (), {"a": value})]


def test_several_calls_in_any_order_each_used_once():
    answer = [{"f": {"a": [1, 2]}}, {"f": {"a": [1]}}, {"g": {}}]
    assert score("[g(), f(a=2), f(a=1)]", answer) == 1.0
    assert score("[g(), f(a=1), f(a=1)]", answer) == 1.0
    assert score("[g(), f(a=2), f(a=2)]", answer) == 0.0
    assert score("[g(), f(a=1), f(a=2)]", answer) == 1.0
    assert score("[g(), g(), f(a=1)]", answer) == 0.0


def test_arguments_that_have_their_default():
    tools = [{"name": "f", "parameters": {"properties": {"a": {"type": "integer", "default": 5}, "b": {}}}}]
    for answer in ('[{"name": "f", "arguments": {"a": 5}}]', '[{"name": "f", "arguments": {}}]'):
        assert [score(f"[f({a})]", answer, tools=tools) for a in ("", "a=5", "a=6", "b=5")] == [1, 1, 0, 0]
    answer = '[{"name": "f", "arguments": {"a": 6}}]'
    assert [score(f"[f({a})]", answer, tools=tools) for a in ("", "a=5", "a=6")] == [0, 0, 1]
    assert score("[f()]", [{"f": {"a": [5]}}], tools=tools) == 0.0  # BFCL's form says what is optional


def test_names_with_dots_are_written_without():
    answer = '[{"name": "math.sqrt", "arguments": {"x": 4}}]'
    assert [score(f"[{name}(x=4)]", answer) for name in ("math_sqrt", "math.sqrt", "sqrt")] == [1, 1, 0]


def test_odd_schemas_end_no_run():
    for schema in ({"required": True}, {"properties": {"a": {"items": 5}}, "required": "a"}, {"type": 5}):
        tools = [{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}}} | schema}]
        assert score("f(a=5)", [{"f": {"a": [5]}}], tools=tools) == 1.0
    floats = [
        {"name": "f", "parameters": {"properties": {"a": {"type": "array", "items": {"type": "number"}}}}}
    ]
    assert score("f(a=[1, 2.5])", [{"f": {"a": [[1.0, 2.5]]}}], tools=floats) == 1.0


def test_nothing_to_call():
    prose = ["I cannot do that.", "[]", 'Write {"a": 1} to the file.']
    prose += [
        f"Do not call {it}" for it in ("it:\nf(a=1)", "it: [f(a=1)]", "it:\n\n```\nf(a=1)\n```", "f(a=1)")
    ]
    calls = ["f()", "", "<think>hm", *FORMS, "<tool_call>{", "<tool_call>f(a=</tool_call>", "f(a=b)."]
    assert [score(text, []) for text in prose + calls] == [1.0] * len(prose) + [0.0] * len(calls)
    assert score("f()", None) is None
    with pytest.warns(RuntimeWarning, match="'' says that there is none"):
        assert score("", "") is None


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


@pytest.mark.parametrize("answer", ["f(1)", "[5]", '[{"f": {}, "g": {}}]', '{"f": 1}'])
def test_answers_that_are_no_calls(answer):
    with pytest.warns(RuntimeWarning, match="the expected calls of the prompt 'k' cannot be read"):
        assert resolve_reward("function-calls").summed(["f(a=1)"], [{"answer": answer, "key": "k"}]) == [None]


@pytest.mark.parametrize(
    "answers",
    [
        [[{"f": {"a": [1]}}, {"g": {"b": ["x"]}}], [{"f": {"c": [2]}}]],
        [[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {"b": "x"}}], []],
    ],
)
def test_nulls_of_arrow_expect_no_arguments(answers):
    """Arrow gives all objects of a column the names of all, in a host's rows and in curro's own data."""
    raw = pa.array(answers).to_pylist()[0]
    assert None in [*raw[0].values(), *raw[0].get("arguments", {}).values()]
    for answer in (raw, json.dumps(raw)):
        rows = [{"prompt": "?", "answer": answer, "key": "p"}] * 3
        texts = ['[f(a=1), g(b="x")]', "[f(a=1)]", '[f(a=1, c=2), g(b="x")]']
        assert resolve_reward("function-calls").score(texts, rows) == [1.0, 0.0, 0.0]

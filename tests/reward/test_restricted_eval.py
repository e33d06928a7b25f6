"""What is evaluated, and what is not."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from curro.reward.restricted_eval import restricted_eval


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 ** 2", 19),
        ("(0x1f << 2) & ~3", 124),
        ("  [[1, 2], ['a', None]]", [[1, 2], ["a", None]]),
        ("{'a': (1, 2)}", {"a": (1, 2)}),
        ("-True", -1),
    ],
)
def test_literals_and_arithmetic(text, value):
    assert restricted_eval(text) == value


def test_sympy_s_functions_of_names_it_is_given():
    names = {"sin": sympy.sin, "Symbol": sympy.Symbol, "Integer": sympy.Integer}
    x = sympy.Symbol("x")
    assert restricted_eval("sin(x) + Integer(2) * Symbol('x')", names, {"x": x}) == sympy.sin(x) + 2 * x


@pytest.mark.parametrize(
    "text",
    [
        "().__class__",
        "[1][0]",
        "open('f')",
        "sin.__init__('f')",
        "(sin)(1)(2)",
        "[y for y in x]",
        "lambda: 1",
        "__builtins__",
        "_private",
        "(y := 1)",
        "sin(*x)",
        "sin(x, evaluate=False)",
        "sin(**x)",
    ],
)
def test_nothing_else(text):
    everything = {"open": open, "sin": sympy.sin, "x": sympy.Symbol("x"), "__builtins__": __builtins__}
    with pytest.raises((ValueError, SyntaxError)):
        restricted_eval(text, everything)


def test_the_builtins_are_not_there():
    for text in ("open", "len"):
        with pytest.raises(NameError):
            restricted_eval(text)


def test_compiled_code_is_refused():
    with pytest.raises(ValueError, match="only text"):
        restricted_eval(compile("1", "", "eval"))  # type: ignore[arg-type]


literals = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner),
)


@given(literals)
def test_every_literal_is_read_back(value):
    assert restricted_eval(repr(value)) == value

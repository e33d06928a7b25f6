r"""math-verify on one pair of answers; runs in a process of its own.

math-verify reads LaTeX with a grammar. Bare expressions go to SymPy's parser, which evaluates Python, but
only once a regular expression has found nothing in them but digits, white space and + - * / ^ ( ) and dots.

Its equality is taken with these fences:

* Numbers must agree relative to their size. math-verify rounds to 6 decimals, so that 1e-19 equals 1e-31.
* A rounded decimal is not the exact number: 0.333333 is not 1/3 (math-verify takes it).
* A chain of equations in which numbers differ is wrong: `4=5` for 5 (math-verify takes the last side).
* Of an equation with unknowns the last side counts, as in math-verify and DAPO's grader: `2x+1=5` for 5 may
  answer "what is 2x+1?" or be unsolved, and only the question tells.
* Units are taken off before (`curro.reward.notation.expression`): math-verify takes the t of 5 - 2t for one.
* R and r differ where one answer has both (math-verify reads capitals as small letters, so that R - r is 0).
* Logarithms are those of positive numbers: log xy is log x + log y.
* dy/dx = 2x is not dy/dx = 3x (SymPy takes the derivative of the name y, which is 0).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import sympy
from math_verify import ExprExtractionConfig, LatexExtractionConfig, LatexNormalizationConfig, parse
from math_verify import verify as math_equal
from sympy.core.relational import Relational

from curro.reward.quantities import ROUNDED_FIGURES, Number, number, same_numbers

EXACT, DECIMAL = sympy.Float("1e-20"), sympy.Float("1e-9")
"""Largest relative difference of equal numbers: of exact ones, and where one of them is a decimal."""

APPROXIMATE = 0.01
"""Largest relative difference of numbers on the sides of an approximation sign."""

_DIGITS = 40
_SIDES = re.compile(r"(?<![<>!\\:])(={1,3}|\\approx|\\simeq|\\doteq)(?!=)")
_PARTS = re.compile(r"[,;](?!\d{3}(?!\d))|\\text\s*\{\s*(?:or|and)\s*\}|\b(?:or|and)\b|\\l?or\b|\\land\b")
_AND = re.compile(r",\s*(?=[a-z]\s*\\neq?(?![a-z]))|\\text\s*\{\s*and\s*\}|\band\b|\\land\b|\\wedge\b")
_INEQUALITY = re.compile(r"[<>]|\\(?:[lg](?:e|eq|t)|neq?)(?![a-z])")
_LETTER = re.compile(r"\\(?:frac|sqrt|cdot|times|left|right|pi|div|,|%)(?![A-Za-z])|(?P<letter>[A-Za-z])")


def warm() -> None:
    """Load what the first check would wait for: SymPy needs a second of processor time for a first power."""
    check((r"\frac{\sqrt{2}}{2}", "0.5"))
    check(("x^2+2x+1", "(x+1)^2"))
    check((r"\{1,2\}", "1=2"))
    check(("(0,1)", "0<x<1"))


def check(job: tuple[str, str]) -> float:
    """1.0 if the second answer equals the first, else 0.0. The time limits are the process's.

    Args:
        job: the row's answer and the completion's, as `curro.reward.notation.expression` writes them.
    """
    gold, answer = map(_listed, _with_letters_apart(*job))
    if gold == answer:  # asks whether this is a formula: equal texts need no check
        return float(any(not isinstance(part, str) for part in _parsed(gold)))
    sides = _true_sides(answer)
    if sides is None or _ADJACENT.search(answer):
        return 0.0
    answers = [answer] if _SIDES.search(gold) or not sides else sides
    wanted = _parsed(gold)
    rounded = number(gold)
    if rounded and rounded.figures >= ROUNDED_FIGURES and any(_rounds(a, rounded) for a in answers):
        return 1.0
    return float(any(_numbers(gold, a) or _equal(wanted, _parsed(a)) for a in answers))


def _listed(text: str) -> str:
    """A text whose numbers stand side by side as a list, of which math-verify takes the sum: 5 7 is 5, 7."""
    return _SPACE.sub(", ", text) if _SIDE_BY_SIDE.fullmatch(text) else text


_SPACE = re.compile(r"(?:\s|~|\\[ ,;:]|\\q?quad(?![a-z]))+")
_SIDE_BY_SIDE = re.compile(rf"\d+(?:\.\d+)?(?:{_SPACE.pattern}\d+(?:\.\d+)?)+")
_ADJACENT = re.compile(rf"(?<![\d.^_])\d+(?:\.\d+)?{_SPACE.pattern}(?!\d{{3}}(?!\d))\d+(?![\d/])")
"""Numbers side by side in a formula; 3 1/2 and 10 000 are one."""


def _rounds(answer: str, decimal: Number) -> bool:
    r"""Whether a formula's value rounds to a decimal: \sqrt{2} to 1.41421."""
    target, half = (
        sympy.Rational(x.numerator, x.denominator) for x in (decimal.value, decimal.last_place / 2)
    )
    formulas = [part for part in _parsed(answer) if isinstance(part, sympy.Expr) and part.is_number]
    values = [sympy.N(formula, _DIGITS) for formula in formulas]
    return any(bool(value.is_real and abs(value - target) <= half) for value in values)


_TOKEN = re.compile(r"\\mathbb\s*\{?[A-Z]|\\[A-Za-z]+|[A-Za-z]")


def _with_letters_apart(gold: str, answer: str) -> tuple[str, str]:
    """The answers with another letter for each capital that one of them has as a small letter too."""
    letters = [{token for token in _TOKEN.findall(text) if len(token) == 1} for text in (gold, answer)]
    both = sorted({name for names in letters for name in names if name.isupper() and name.lower() in names})
    free = [name for name in "zwvuqsthgjklmnpabcfrxy" if name not in "".join(map(str.lower, gold + answer))]
    new = dict(zip(both, free, strict=False))
    first, second = (_TOKEN.sub(lambda m: new.get(m[0], m[0]), text) for text in (gold, answer))
    return first, second


def _parsed(text: str) -> list[Any]:
    pieces = _AND.split(text)
    if len(pieces) > 1 and all(_INEQUALITY.search(piece) for piece in pieces):
        sets = [_solutions(parsed[0]) if (parsed := _parsed(piece)) else None for piece in pieces]
        if None not in sets:
            return [sympy.Intersection(*sets)]
    return parse(f"\\boxed{{{text}}}", _FORMS, parsing_timeout=None)


_FORMS = [
    LatexExtractionConfig(
        normalization_config=LatexNormalizationConfig(malformed_operators=True, nits=True, units=False)
    ),
    ExprExtractionConfig(),
]


def _numbers(gold: str, answer: str) -> bool:
    numbers = number(gold), number(answer)
    return bool(numbers[0] and numbers[1] and same_numbers(numbers[0], numbers[1]))


def _true_sides(answer: str) -> list[str] | None:
    """The sides of an equation that are numbers, none for another text; None if two of them differ."""
    parts = _PARTS.split(answer)
    sides: list[str] = []
    for part in parts:
        first, *others = _SIDES.split(part)
        signed = [("=", first), *zip(others[::2], others[1::2], strict=True)] if others else []
        numeric = [(sign, side, value) for sign, side in signed if (value := _value(side)) is not None]
        for (_, _, before), (sign, _, value) in pairwise(numeric):
            close = DECIMAL if sign == "=" else APPROXIMATE
            if abs(before - value) > close * max(abs(before), abs(value)):
                return None
        sides += [piece for _, piece, _ in numeric]
    return sides if len(parts) == 1 else []


def _value(text: str) -> Any:
    """The value of a text that is a number without a unit, else None."""
    if any(match["letter"] for match in _LETTER.finditer(text)) or not re.search(r"\d|\\pi", text):
        return None
    for parsed in _parsed(text):
        if isinstance(parsed, sympy.Expr) and parsed.is_number:
            value = sympy.N(parsed.doit(), _DIGITS)
            return value if value.is_finite else None
    return None


def _equal(gold: list[Any], answer: list[Any]) -> bool:
    return any(_same(g, a) for g in gold for a in answer)


def _same(gold: Any, answer: Any) -> bool:
    gold, answer = _named(gold), _named(answer)
    if isinstance(gold, str) or isinstance(answer, str):
        return gold == answer != ""
    if isinstance(gold, sympy.Expr) and isinstance(answer, sympy.Expr):
        same = _same_number(gold, answer) if gold.is_number and answer.is_number else None
        if same is not None:
            return same
        if gold.has(sympy.log):
            gold, answer = (sympy.expand_log(side, force=True) for side in (gold, answer))
    sets = _solutions(gold), _solutions(answer)
    if sets[0] is not None and sets[1] is not None and _same_variable(gold, answer):
        gold, answer = sets
    vectors = _components(gold), _components(answer)
    if vectors[0] and vectors[1] and sympy.MatrixBase in (*type(gold).__mro__, *type(answer).__mro__):
        return _same_items(*vectors, in_order=True)
    for kind in (sympy.Tuple, sympy.FiniteSet):
        if isinstance(gold, kind) and isinstance(answer, kind):
            return _same_items(list(gold.args), list(answer.args), in_order=kind is sympy.Tuple)
    if isinstance(gold, sympy.Interval) and isinstance(answer, sympy.Interval):
        is_open = gold.left_open == answer.left_open and gold.right_open == answer.right_open
        return bool(is_open) and _same(gold.start, answer.start) and _same(gold.end, answer.end)
    is_equal = math_equal(gold, answer, timeout_seconds=None, allow_set_relation_comp=True)
    return is_equal or _same_function(gold, answer)


_VALUES = [sympy.Rational(n, 100) for n in (37, -61, 83, -29, 170, -230, 512, -790, 123456, -98765)]
_STEPWISE = (sympy.floor, sympy.ceiling, sympy.Piecewise, sympy.sign)


def _same_function(gold: Any, answer: Any) -> bool:
    """Whether two formulas in the same variables are equal where both are real: sqrt(1/n) is 1/sqrt(n)."""
    formulas = gold, answer
    if not all(isinstance(side, sympy.Expr) and not side.has(*_STEPWISE) for side in formulas):
        return False
    names = sorted(gold.free_symbols | answer.free_symbols, key=str)
    parts = [part for side in formulas for part in side.atoms(sympy.Pow, sympy.Function)]
    agreed = 0
    for i in range(2 * len(_VALUES)):
        point = {name: _VALUES[(i + 3 * k) % len(_VALUES)] for k, name in enumerate(names)}
        if i >= len(_VALUES):
            point = {name: abs(value) for name, value in point.items()}
        first, second, *rest = (sympy.N(part.subs(point), _DIGITS) for part in (*formulas, *parts))
        if all(value.is_real and value.is_finite for value in (first, second, *rest)):
            if abs(first - second) > EXACT * max(abs(first), abs(second)):
                return False
            agreed += 1
    return bool(names) and agreed > 2


def _named(answer: Any) -> Any:
    """An answer with a name for each derivative, and the imaginary unit for i or j if it is the only name."""
    if isinstance(answer, sympy.Basic) and answer.has(sympy.Derivative):
        return answer.replace(
            lambda term: isinstance(term, sympy.Derivative), lambda term: sympy.Symbol(str(term))
        )
    is_name = isinstance(answer, sympy.Eq) and answer.lhs.is_Symbol
    value = answer.rhs if is_name else answer
    names = value.free_symbols if isinstance(value, sympy.Expr) else ()
    return value.subs(dict.fromkeys(names, sympy.I)) if [*map(str, names)] in (["i"], ["j"]) else answer


def _components(answer: Any) -> list[Any]:
    """The components of a row, column or tuple, or of a list of two (read as an interval); else none."""
    if isinstance(answer, sympy.MatrixBase):
        return list(answer) if 1 in answer.shape else []
    if isinstance(answer, sympy.Interval):
        return [answer.start, answer.end]
    return list(answer.args) if isinstance(answer, sympy.Tuple) else []


def _same_variable(gold: Any, answer: Any) -> bool:
    symbols = gold.free_symbols, answer.free_symbols
    return not (symbols[0] and symbols[1]) or symbols[0] == symbols[1]


def _solutions(answer: Any) -> Any:
    """The set that an interval, an inequality or several joined by "or" describe; None for other answers."""
    if isinstance(answer, sympy.Interval | sympy.Union):
        return answer
    if not isinstance(answer, sympy.Basic):
        return None
    relations = answer.args if isinstance(answer, sympy.FiniteSet) else [answer]
    if len(answer.free_symbols) != 1 or not all(isinstance(r, Relational | sympy.And) for r in relations):
        return None
    if any(isinstance(r, sympy.Eq) for r in relations):
        return None
    try:
        return sympy.Union(
            *((sympy.And(*r.args) if isinstance(r, sympy.And) else r).as_set() for r in relations)
        )
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        return None


def _same_items(gold: list[Any], answer: list[Any], *, in_order: bool) -> bool:
    if len(gold) != len(answer):
        return False
    for item in gold:
        match = next((a for a in (answer[:1] if in_order else answer) if _same(item, a)), None)
        if match is None:
            return False
        answer.remove(match)
    return True


def _same_number(gold: Any, answer: Any) -> bool | None:
    """Whether two numbers agree relative to their size; None for infinities and what has no value."""
    gold, answer = gold.doit(), answer.doit()
    if gold.is_Rational and answer.is_Rational:
        return bool(gold == answer)
    values = sympy.N(gold, _DIGITS), sympy.N(answer, _DIGITS)
    if not all(value.is_finite and value.is_number for value in values):
        return None
    scale = max(abs(values[0]), abs(values[1]))
    close = DECIMAL if gold.has(sympy.Float) or answer.has(sympy.Float) else EXACT
    return bool(abs(values[0] - values[1]) <= close * scale)

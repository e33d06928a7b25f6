"""The reward `function-calls` agrees with bfcl-eval's checker of syntax trees on its single-turn problems."""

from __future__ import annotations

import copy
import json
import random
import sys
import types
from itertools import permutations
from typing import Any

import pytest

from curro.contrib.bfcl import tasks
from curro.contrib.bfcl.function_calls import verify

CATEGORIES = (
    *("simple_python", "multiple", "parallel", "parallel_multiple"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
)


@pytest.fixture(scope="module")
def theirs():
    """bfcl-eval's checker, without its list of models, whose import needs every provider's client."""
    plain = types.SimpleNamespace(underscore_to_dot=False)
    models = types.ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {"plain": plain}  # type: ignore[attr-defined]
    sys.modules[models.__name__] = models
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def check(functions: Any, calls: Any, answer: Any, category: str) -> bool:
        told = [{name: copy.deepcopy(named)} for name, named in calls]
        return ast_checker(functions, told, copy.deepcopy(answer), Language.PYTHON, category, "plain")[
            "valid"
        ]

    return check


def value(allowed: list[Any], rng: random.Random) -> Any:
    """One of the allowed values; None to leave out an optional parameter."""
    given = [one for one in allowed if one != ""]
    if not given or ("" in allowed and rng.random() < 0.5):
        return None
    return plain(rng.choice(given), rng)


def plain(one: Any, rng: random.Random) -> Any:
    if isinstance(one, dict):
        chosen = {name: value(item, rng) if isinstance(item, list) else item for name, item in one.items()}
        return {name: item for name, item in chosen.items() if item is not None}
    return [plain(item, rng) for item in one] if isinstance(one, list) else one


def changed(one: Any, rng: random.Random) -> Any:
    if isinstance(one, bool):
        return rng.choice([not one, int(one), str(one)])
    if isinstance(one, int | float):
        return rng.choice([one + 1, float(one), int(one), str(one), one])
    if isinstance(one, str):
        return rng.choice([one.upper(), one + "x", one.replace(" ", ""), " " + one, 5, [one]])
    if isinstance(one, list):
        return rng.choice(
            [one[:-1], one + one[:1], tuple(one), one[::-1], [changed(i, rng) for i in one], {}]
        )
    return one | {"more": 1} if rng.random() < 0.5 else dict(list(one.items())[1:])


def attempt(
    answer: list[dict[str, Any]], rng: random.Random, mistakes: float
) -> list[tuple[str, dict[str, Any]]]:
    calls = []
    for one in answer:
        ((name, allowed),) = one.items()
        chosen = {parameter: value(values, rng) for parameter, values in allowed.items()}
        named = {parameter: item for parameter, item in chosen.items() if item is not None}
        if named and rng.random() < mistakes:
            parameter = rng.choice(list(named))
            named[parameter] = changed(named[parameter], rng)
        if rng.random() < mistakes / 10:
            named = named | {"more": 1} if rng.random() < 0.5 else dict(list(named.items())[1:])
        calls.append((name + "x" * (rng.random() < mistakes / 20), named))
    rng.shuffle(calls)
    return calls[:-1] if rng.random() < mistakes / 20 else calls


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_same_calls_are_right(theirs, category):
    rng = random.Random(category)
    name = f"BFCL_v4_{category}.json"
    answers = {one["id"]: one["ground_truth"] for one in tasks._lines(f"possible_answer/{name}")}
    right = wrong = 0
    for entry in tasks._lines(name):
        answer = answers[entry["id"]]
        for mistakes in (0.0, 0.8, 0.8, 0.8):
            calls = attempt(answer, rng, mistakes)
            expected = theirs(entry["function"], calls, answer, category)
            written = [
                f"{name}({', '.join(f'{k}={v!r}' for k, v in named.items())})" for name, named in calls
            ]
            row = {
                "answer": json.dumps(answer),
                "function": json.dumps(entry["function"]),
                "key": entry["id"],
            }
            (score,) = verify([f"[{', '.join(written)}]"], [row])
            if (
                score and not expected
            ):  # it takes the first call that fits: some orders of right calls are wrong
                orders = map(list, permutations(calls))
                expected = any(theirs(entry["function"], order, answer, category) for order in orders)
            assert score == float(expected), (entry["id"], written, answer)
            right, wrong = right + expected, wrong + (not expected)
    assert right > 10
    assert wrong > 10

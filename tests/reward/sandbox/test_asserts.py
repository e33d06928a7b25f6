"""Tests that call a program: what passes, and what a program that wants to pass without solving can do."""

from __future__ import annotations

import pytest

from curro.reward.sandbox import Limits, landlock
from curro.reward.sandbox.asserts import run_asserts
from curro.reward.sandbox.confinement import BUBBLEWRAP, LANDLOCK

LIMITS = Limits(seconds=5.0, memory_mib=256)


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK][: 1 + bool(landlock.version())], ids=lambda one: one.name)
def passed(request):
    def passed(program: str, *tests: str, setup: str = "") -> list[bool]:
        return run_asserts(program, tests, request.param, LIMITS, setup=setup)

    return passed


def test_plain_data_comes_as_it_is(passed):
    values = [
        None,
        True,
        2**100,
        -3,
        1.5,
        float("inf"),
        "a\ud800\n",
        b"\0",
        1j,
        (1, [2]),
        {(1,): {2}},
        frozenset({3}),
    ]
    program = "def same(x):\n    return x\n\ndef kind(x):\n    return type(x).__name__"
    tests = [f"from math import inf\nassert same({v!r}) == {v!r}" for v in values]
    tests += [f"from math import inf\nassert kind({v!r}) == {type(v).__name__!r}" for v in values]
    assert passed(program, *tests) == [True] * len(tests)


def test_objects_errors_and_names(passed):
    program = """
import math
from collections import Counter

class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def total(self):
        return self.a + self.b

def largest(pairs):
    return max(pair.total() for pair in pairs)

def refuse(x):
    raise KeyError(x)

def leave():
    raise SystemExit

def count(text):
    return Counter(text)
"""
    tests = [
        "assert largest([Pair(1, 2), Pair(b=3, a=4)]) == 7",
        "p = Pair(1, 2)\nassert (p.a, p.total()) == (1, 3)",
        "try:\n    refuse(1)\nexcept KeyError:\n    pass\nelse:\n    assert False",
        "refuse(1)",
        "leave()",
        "assert count('aab') == {'a': 2, 'b': 1}",
        "assert math.isclose(largest([Pair(.1, .2)]), .3)",
        "assert largest([Pair(1, lambda: 2)]) == 3",  # functions of the tests' are not given away
        "assert largest([Pair(1, 2)]) == 4",
    ]
    assert passed(program, *tests) == [True, True, True, False, False, True, True, False, False]


@pytest.mark.parametrize(
    "program",
    [
        "class Same:\n    def __eq__(self, other): return True\n\ndef f(x): return Same()",
        "class Same(int):\n    def __eq__(self, other): return True\n\ndef f(x): return Same(7)",
        "import builtins\nbuiltins.AssertionError = KeyError\n\ndef f(x): return 7",
        "def f(x):\n    import os\n    os._exit(0)",
        "import sys\nsys.exit(0)",
        "def f(x):\n    import gc\n    return [o for o in gc.get_objects() if 'assert' in repr(o)]",
        "def f(x):\n    import inspect\n    return [frame.code_context for frame in inspect.stack()][-1]",
        "def f(x):\n    while True: pass",
        "print('1\\n1\\n1')\n\ndef f(x): pass",
        "import os\nfor n in range(3, 64):\n    try: os.write(n, b'1\\n' * 9)\n    except OSError: pass",
        "def isclose(a, b): return True\n\ndef all(x): return True\n\ndef f(x): return 7",
    ],
)
def test_no_trick_passes(passed, program):
    tests = [
        "assert f(3) == 4",
        "assert all([f(3) == 4])",
        "assert isclose(f(3), 4)",
        "import math\nassert math.isclose(f(3), 4)",
    ]
    setup = "from math import isclose"
    assert passed(program, *tests, setup=setup) == [False] * 4


def test_helpers_of_the_setup_are_not_the_program_s(passed):
    program = "def helper(x, y): return True\n\ndef f(x): return 7"
    assert passed(program, "assert helper(f(3), 4)", setup="def helper(x, y):\n    return x == y") == [False]


def test_the_program_never_sees_a_test(passed):
    program = """
import os

def f(x):
    found = []
    for place in ('/proc', '/tmp', '/dev/shm', '/proc/self/fd'):
        for folder, _, names in os.walk(place):
            for name in names:
                try:
                    with open(os.path.join(folder, name), 'rb') as file:
                        found.append(file.read(100_000))
                except OSError:
                    pass
            if len(folder) > 40:
                break
    return any(b'the' + b'answer' in one for one in found)
"""
    assert passed(program, "assert f('x') is False, 'theanswer'") == [True]

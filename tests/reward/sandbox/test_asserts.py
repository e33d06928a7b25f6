"""Tests that call a program: what passes, and what a program that wants to pass without solving can do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from curro.reward.code_tests import read_tests
from curro.reward.programs import with_imports
from curro.reward.sandbox import Limits, landlock
from curro.reward.sandbox.confinement import BUBBLEWRAP, LANDLOCK, Confinement
from curro.reward.sandbox.program_tests import run_asserts

LIMITS = Limits(seconds=60.0, memory_mib=256)


def run_in(confinement: Confinement) -> Callable[..., list[bool | None]]:
    def passed(program: str, *tests: str, seconds: float = 60.0, **options: str) -> list[bool | None]:
        limits = Limits(seconds=seconds, memory_mib=256)
        verdicts = run_asserts(
            with_imports(program, frozenset(re.findall(r"\w+", " ".join(tests)))),
            tests,
            confinement,
            limits,
            **options,
        )
        return [None if isinstance(verdict, str) else verdict for verdict in verdicts]

    return passed


@pytest.fixture
def passed():
    """Which tests a program passes, where that is decided by what runs inside, as in every confinement."""
    return run_in(BUBBLEWRAP)


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK][: 1 + bool(landlock.version())], ids=lambda one: one.name)
def passed_in_each(request):
    """As `passed`, where the processes, their files or their pipes take part."""
    return run_in(request.param)


def test_plain_data_comes_as_it_is(passed_in_each):
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
    assert passed_in_each(program, *tests) == [True] * len(tests)


def test_objects_errors_and_names(passed_in_each):
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
    assert passed_in_each(program, *tests) == [True, True, True, False, False, True, True, False, False]


@pytest.mark.parametrize(
    "program",
    [
        "class Same:\n    def __eq__(self, other): return True\n\ndef f(x): return Same()",
        "class Same(int):\n    def __eq__(self, other): return True\n\ndef f(x): return Same(7)",
        "import builtins\nbuiltins.AssertionError = KeyError\n\ndef f(x): return 7",
        "def f(x):\n    import os\n    os._exit(0)",
        "import sys\nsys.exit(0)",
        "def f(x):\n    import gc\n"
        "    return [o for o in gc.get_objects() if isinstance(o, dict) and 'TESTS' in o]",
        "def f(x):\n    import inspect\n    return [frame.code_context for frame in inspect.stack()][-1]",
        "def f(x):\n    while True: pass",
        "print('1\\n1\\n1')\n\ndef f(x): pass",
        "import os\nfor n in range(3, 64):\n    try: os.write(n, b'1\\n' * 9)\n    except OSError: pass",
        "def isclose(a, b): return True\n\ndef all(x): return True\n\ndef f(x): return 7",
    ],
)
def test_no_trick_passes(passed_in_each, program):
    tests = [
        "assert f(3) == 4",
        "assert all([f(3) == 4])",
        "assert isclose(f(3), 4)",
        "import math\nassert math.isclose(f(3), 4)",
    ]
    setup = "from math import isclose"
    seconds = 0.2 if "while True" in program else 5.0
    assert passed_in_each(program, *tests, setup=setup, seconds=seconds) == [False] * 4


def test_no_call_ends_a_loop_of_the_test_s(passed):
    tests = [
        "for got, wanted in zip(map(f, [1, 2]), [2, 4]):\n    assert got == wanted",
        "assert all(map(lambda x: f(x) == 2 * x, [1, 2]))",
    ]
    assert passed("def f(x): raise StopIteration", *tests) == [False] * 2
    assert passed("def f(x): return 2 * x", *tests) == [True] * 2


def test_helpers_of_the_setup_are_not_the_program_s(passed):
    program = "def helper(x, y): return True\n\ndef f(x): return 7"
    assert passed(program, "assert helper(f(3), 4)", setup="def helper(x, y):\n    return x == y") == [False]


def test_the_program_never_sees_a_test(passed_in_each):
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
    assert passed_in_each(program, "assert f('x') is False, 'theanswer'") == [True]


@pytest.mark.parametrize("name", ["gcd", "sum", "queue", "sorted", "copy"])
def test_a_function_that_is_named_as_python_s_is_the_program_s(passed, name):
    program = f"def {name}(x, y=1):\n    return ('of the program', x)"
    tests = [
        f"assert {name}(3) == ('of the program', 3)",
        f"assert set({name}(3)) == set(('of the program', 3))",
    ]
    assert passed(program, *tests) == [True, True]
    assert passed(program, *tests, function=name) == [True, True]
    assert passed("def other(): pass", *tests) == [False, False]  # Python's own is not tested in its place
    row = {"tests": {"fn_name": name, "inputs": [[3]], "outputs": [["of the program", 3]]}}
    assert run_read(row, program) == [True]


def test_a_name_that_the_program_denies_later_is_not_python_s(passed):
    program = (
        "import sys, types\nclass Module(types.ModuleType):\n    asked = 0\n    @property\n"
        "    def sum(self):\n        Module.asked += 1\n        if Module.asked > 1: raise KeyError\n"
        "sum = 1\ndef f(x): return x\nsys.modules['program'].__class__ = Module"
    )
    assert passed(program, "f(1)\nassert sum([1, 2]) == 3", function="sum") == [False]


def run_read(row, program):
    tests = read_tests(row)
    return run_asserts(program, tests.asserts, BUBBLEWRAP, LIMITS, setup=tests.setup, function=tests.function)


@pytest.mark.parametrize(
    "reply",
    [
        "{'__builtins__': {'set': 1, 'abs': 1, 'sorted': 1}}",
        "['__builtins__', 'set', 'abs', 'sorted', 'any', 'math', '__import__', '__build_class__', 'f']",
    ],
)
def test_no_reply_brings_names_that_rule_how_tests_run(passed, reply):
    """The program speaks the wire itself, from its first reply on, and answers with a handle ever after."""
    program = f"""
import json, os, sys
frame = sys._getframe()
while "REPLIES" not in frame.f_globals:
    frame = frame.f_back
replies = os.fdopen(os.dup(frame.f_globals["REPLIES"]), "w")
requests = os.fdopen(os.dup(frame.f_globals["REQUESTS"]), "r")
first = {reply}
if isinstance(first, list):
    first = {{"list": first}}
else:
    first = {{"dict": [part for k, v in first.items() for part in (k, {{"list": list(v)}})]}}
print(json.dumps({{"value": first}}), file=replies, flush=True)
for line in requests:
    print(json.dumps({{"value": {{"number": 0}}}}), file=replies, flush=True)
"""
    tests = [
        "assert set(f(3)) == {3, 4}",
        "assert abs(f(3) - 9) < 1",
        "assert sorted(f(3)) == [3]",
        "assert math.isclose(f(3), 9)",
        "assert not any(f(3))",
        "assert f(3)",
    ]
    assert passed(program, *tests) == [False] * 6


def test_results_of_other_types_come_when_they_are_asked_for(passed):
    program = """
import datetime, decimal, fractions
from collections import Counter, deque
cycle = []
cycle.append(cycle)
deep = []
for _ in range(100_000):
    deep = [deep]
large = list(range(3_000_000))

def numbers(n):
    yield from range(n)

def span(n): return range(n)
def last(items, n): return deque(items, maxlen=n)
def count(text): return Counter(text)
def half(): return fractions.Fraction(1, 2)
def price(): return decimal.Decimal("1.10")
def day(): return datetime.date(2024, 2, 29)
def loop(): return cycle

class Node:
    def __init__(self, value): self.value, self.next = value, None
    def __len__(self): return 1 if self.next is None else 1 + len(self.next)
    def __getitem__(self, i): return self.value if i == 0 else self.next[i - 1]
    def __str__(self): return f"<{self.value}>"
    def __eq__(self, other): return True
"""
    tests = [
        "assert list(numbers(3)) == [0, 1, 2] and next(numbers(3)) == 0",
        "assert span(3) == range(3) and list(span(3)) == [0, 1, 2]",
        "from collections import deque\nassert last('abc', 2) == deque('bc') and last('abc', 2).maxlen == 2",
        "assert count('aab').most_common(1) == [('a', 2)]",
        "from fractions import Fraction\nassert half() == Fraction(1, 2) and half() + 1 == 1.5",
        "from decimal import Decimal\nassert price() == Decimal('1.10')",
        "import datetime\nassert day() == datetime.date(2024, 2, 29)",
        "n = Node(1)\nn.next = Node(2)\nassert (n.next.value, len(n), n[1], str(n)) == (2, 2, 2, '<1>')",
        "assert loop() is not None",
        "assert Node(1) == 1",
        "assert sum(numbers(4)) == 6",
        "assert list(numbers(3)) == [0, 1]",
    ]
    assert passed(program, *tests) == [True] * 9 + [None, True, False]


def test_a_program_is_compiled_as_python_compiles_a_file(passed):
    """Its annotations are evaluated: a name that nothing gives it is an error, and types are no texts."""
    assert passed("def f(xs: Lists[int]):\n    return 1", "assert f([]) == 1") == [False]
    assert passed("def f(x: int):\n    return f.__annotations__['x'](x)", "assert f('3') == 3") == [True]


def test_names_of_starter_code_are_there_and_yield_to_the_programs_own(passed):
    program = "def f(a: Optional[List[int]]):\n    return Counter(a)[1], inf > 1, heapq.nlargest(1, a)"
    assert passed(program, "assert f([1, 1, 2]) == (2, True, [2])") == [True]
    assert passed("def Counter(a):\n    return 7\ndef f(a):\n    return Counter(a)", "assert f([]) == 7") == [
        True
    ]


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("def f(a): a.sort()", "a = [3, 1]\nf(a)\nassert a == [1, 3]"),
        ("def f(grid): grid[0][1] = 9", "row = [1, 2]\ngrid = [row]\nf(grid)\nassert row == [1, 9]"),
        ("def f(d): d['b'] = d.pop('a')", "d = {'a': 1}\nf(d)\nassert d == {'b': 1}"),
        ("def f(q): q.append(4)",
         "import collections\nq = collections.deque([3])\nf(q)\nassert list(q) == [3, 4]"),
        ("def f(a):\n    a['x'] = [1]\n    raise KeyError",
         "a = {}\ntry:\n    f(a)\nexcept KeyError:\n    assert a == {'x': [1]}\nelse:\n    assert False"),
        ("class C:\n    n = 0\n    def add(s, k): s.n += k",
         "import threading\nc = C()\ndef go(): [c.add(1) for _ in range(99)]\n"
         "ts = [threading.Thread(target=go) for _ in range(3)]\n"
         "for t in ts: t.start()\nfor t in ts: t.join()\nassert c.n == 297"),
        ("def f(a): return a.pop()", "a = [1, 2]\nassert f(a) == 2 and a == [1]"),
        ("class E(ValueError): pass\ndef f(): raise E('no', 5)",
         "try:\n    f()\nexcept ValueError as error:\n    assert error.args == ('no', 5)"),
        ("class D(Exception): pass\nclass E(D): code = 3\ndef f(): raise E()",
         "try: f()\nexcept D as error: ok = error.code\nassert ok == 3"),
        ("def f(g, x): return g(x) + 1", "assert f(lambda v: v * 2, 3) == 7"),
        ("def f(g):\n    try: g()\n    except KeyError as e: return e.args",
         "def g(): raise KeyError('k')\nassert f(g) == (\"'k'\",)"),
        ("def f(xs): return sum(xs)", "assert f(map(int, '123')) == 6"),
        ("class P: pass\nclass Q(P): pass\ndef f(): return Q()",
         "assert isinstance(f(), (int, P)) and not isinstance(3, P)"),
        ("class C:\n    def __enter__(s): return 5\n"
         "    def __exit__(s, kind, *a): return kind is ValueError\ndef f(): return C()",
         "with f() as v:\n    raise ValueError('x')\nassert v == 5"),
        ("class V:\n    def __init__(s, x): s.x = x\n    def __add__(s, o): return V(s.x + o.x)\n"
         "    def __lt__(s, o): return s.x < o.x",
         "assert (V(1) + V(2)).x == 3 and V(1) < V(2) and [v.x for v in sorted([V(3), V(1)])] == [1, 3]"),
        ("class P:\n    def __init__(s, x): s.x = x\ndef f(x): return P(x)",
         "assert f(1) == P(1) and f(1) != P(2)"),
        ("from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
         "assert f() == (1, 2) and f().y == 2 and f() == P(1, 2)"),
        ("from enum import Enum\nclass E(Enum):\n    A = 1\ndef f(): return E.A",
         "assert f() == E.A and f() is E.A and E(1) == E['A'] and f().value == 1"),
        ("class V:\n    def __init__(s, x): s.x = x\n    def __repr__(s): return f'V({s.x})'",
         "assert repr(V(1)) == 'V(1)' and V(1).__class__ is V and V(1).__class__.__name__ == 'V'"),
        ("class V:\n    def __abs__(s): return 1", "assert abs(V()) == 1"),
        ("seen, count = [], 0\ndef f(x):\n    global count\n    count += 1\n    seen.append(x)",
         "f(1)\nf(2)\nassert seen == [1, 2] and count == 2"),
        ("class S:\n    def __init__(s): s.items = []\n    def size(s): return len(s.items)",
         "s = S()\ns.items.append(1)\nassert s.size() == 1"),
        ("class P:\n    def __init__(s, x): s.x = [x]",
         "import copy\np, q = P(1), {P(2): 5}\nr = copy.deepcopy(p)\nr.x.append(2)\n"
         "assert p.x == [1] and q[P(2)] == 5"),
        ("class B: pass\nclass C(B): pass", "assert issubclass(C, B) and not issubclass(B, C)"),
        ("def f(x): return x + 1", "import solution\nfrom main import *\nassert solution.f(1) == f(1) == 2"),
        ("class Solution:\n    def f(s, head: Optional[ListNode]): return head.next.val",
         "assert Solution().f(ListNode(1, ListNode(2))) == 2"),
        ("import pathlib\ndef f(): return pathlib.Path('a') / 'b'",
         "import pathlib\nassert f() == pathlib.Path('a/b')"),
        ("class A(Exception): pass\ndef f(): return A('x')", "assert isinstance(f(), A) and str(f()) == 'x'"),
        ("import json\ndef f(s): return json.loads(s)",
         "import json\ntry: f('{')\nexcept json.JSONDecodeError as e: ok = e.pos\nassert ok == 1"),
        ("import sys\ndef f(): sys.exit(2)", "try: f()\nexcept SystemExit as e: ok = e.code\nassert ok == 2"),
        ("from collections import defaultdict\ndef f(): return defaultdict(list, a=[1])",
         "d = f()\nd['b'].append(2)\nassert d == {'a': [1], 'b': [2]}"),
        ("def f():\n    'adds'\n    return {'a': 1}.keys()", "assert f.__doc__ == 'adds' and f() == {'a'}"),
        ("def f(x): return type(x), ...", "assert f(1) == (int, ...)"),
        ("def f(x, t): return isinstance(x, t)", "assert f(1, int) and not f(1, str)"),
        ("def f(a):\n    a.append(1)\n    return a", "a = []\nassert f(a) is a and a == [1]"),
        ("class P:\n    def __init__(s): s._x = 1\n    def __getitem__(s, i): return [0, 1, 2][i]",
         "p = P()\ndel p._x\nassert P()._x == 1 and not hasattr(p, '_x') and p[1:] == [1, 2]"),
        ("class V:\n    def __init__(s, x): s.x = x\n    def __iadd__(s, o): s.x += o.x; return s\n"
         "    def __neg__(s): return V(-s.x)\n    def __int__(s): return s.x\n    __index__ = __int__\n"
         "    def __format__(s, spec): return spec + 'v'",
         "v = w = V(1)\nv += V(1)\nassert w.x == int(v) == 2 and [0, 1, 2][-(-v)] == 2 and f'{v:x}' == 'xv'"),
        ("def f():\n    yield 1", "import types\nassert isinstance(f(), types.GeneratorType) and 1 in f()"),
        ("import functools\ndef f(g):\n    @functools.wraps(g)\n    def w(x): return g(x)\n    return w",
         "@f\ndef h(x): return x\nassert h(1) == 1 and h.__name__ == 'h'"),
        ("def f(head): return head.next.val", "assert f(ListNode(1, ListNode(2))) == 2"),
        ("def f(*, a): a.append(3)", "a = [1]\nf(a=a)\nassert a == [1, 3]"),
        ("class V:\n    def __init__(s, x): s.x = x\n    def __iadd__(s, o): s.x += o.x; return s",
         "a = b = V(1)\na += V(2)\nassert a is b and b.x == 3"),
        ("class N:\n    def __int__(s): return 3\n    def __index__(s): return 1\n"
         "    def __float__(s): return 0.5\n    def __round__(s, n=0): return n\n"
         "    def __invert__(s): return 9",
         "assert (int(N()), 'ab'[N()], float(N()), round(N(), 2), ~N()) == (3, 'b', 0.5, 2, 9)"),
        ("class V:\n    def __init__(s): s.d = {}\n    def __setitem__(s, k, v): s.d[k] = v\n"
         "    def __contains__(s, k): return k in s.d",
         "v = V()\nv['a'] = 1\nassert 'a' in v and 'b' not in v"),
        ("def f(x): return x", "t = 1, 2\ns = 'abc'\nassert f(t) is t and f(s) is s"),
        ("FACTOR = 2\nseen = []\ndef f(x, g):\n    seen.append(x)\n    return g(x)",
         "def g(x): return FACTOR * x + len(seen)\nassert f(1, g) == 3 and f(2, g) == 6"),
        ("class N:\n    def __init__(s, v, n=None): s.v = v; s.n = n\n"
         "def walk(n, visit):\n    while n: visit(n); n = n.n",
         "out = []\nwalk(N(1, N(2)), lambda n: out.append(n.v))\nassert out == [1, 2]"),
        ("def add(a): a.append(5); return a\ndef f(a, g):\n    g()\n    a.append(9)\n    return a",
         "a, b = [1], [0]\ndef g(): assert add(b) is b\nassert f(a, g) is a and (a, b) == ([1, 9], [0, 5])"),
        ("def memo(g):\n    known = {}\n    def w(n):\n        if n not in known: known[n] = g(n)\n"
         "        return known[n]\n    return w",
         "@memo\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nassert fib(9) == 34"),
    ],
)  # fmt: skip
def test_what_tests_do_with_a_right_program_works(passed, program, test):
    assert passed(program, test) == [True]


@pytest.mark.parametrize(
    ("program", "made", "act"),
    [
        ("def f(): log.append(1); raise ValueError", "f", "try:\n    x()\nexcept ValueError:\n    pass"),
        ("def f():\n    log.append(1)\n    yield", "f()", "next(x)"),
        ("class C:\n    def __enter__(s): log.append(1)\n    def __exit__(s, *a): 0", "C()", "with x: 0"),
        ("class C:\n    @property\n    def p(s): log.append(1)", "C()", "x.p"),
    ],
)
def test_what_the_program_has_changed_is_seen_whatever_made_it_do_so(passed, program, made, act):
    test = f"x = {made}\nassert log == []\n{act}\nassert log == [1]"
    assert passed(f"log = []\n{program}", test) == [True]


def test_an_object_of_the_program_cannot_claim_to_be_what_a_test_expects(passed):
    operators = ["eq", "lt", "le", "sub", "rsub", "abs", "contains", "float", "index", "hash"]
    methods = "".join(f"    def __{name}__(self, *a): return 0\n" for name in operators)
    program = f"class Yes:\n{methods}    def __bool__(self): return True\ndef f(x): return Yes()"
    claims = ["f(2) == 4", "f(2) < 5", "abs(f(2) - 4) < 1e-6", "4 == f(2)", "f(2) in [4]"]
    assert passed(program, *(f"assert {claim}" for claim in claims)) == [False] * 5


@pytest.mark.parametrize("value", ["None", "10", "()"])
def test_a_name_that_tests_bind_is_never_the_programs_again(passed, value):
    program = (
        f"import sys, types\nclass Module(types.ModuleType):\n    asked = 0\n    @property\n"
        f"    def wanted(self):\n"
        f"        Module.asked += 1\n        return {value} if Module.asked < 2 else 'forged'\n"
        f"wanted = {value}\nsys.modules['program'].__class__ = Module\ndef f(x): return 'forged'"
    )
    assert passed(program, f"wanted = {value}", "assert f(2) == wanted") == [True, False]


def test_a_name_that_tests_could_not_bind_is_not_the_programs(passed):
    program = "wanted = 'forged'\ndef f(x):\n    if x == 1: raise KeyError\n    return 'forged'"
    fails = "try:\n    wanted = f(1)\nexcept KeyError:\n    pass"
    assert passed(program, fails, "assert f(2) == wanted") == [True, False]


NODES = """
class ListNode:
    def __init__(self, val=0, next=None): self.val, self.next = val, next
def nodes(values):
    return ListNode(values[0], nodes(values[1:])) if values else None
def values(node):
    return [node.val, *values(node.next)] if node else []
"""


def test_objects_of_the_setups_classes_come_and_go_by_value(passed):
    program = """
class Solution:
    def turn(self, head: Optional[ListNode]):
        last = None
        while head:
            head.next, last, head = last, head, head.next
        return last
    def double(self, head):
        while head:
            head.val, head = 2 * head.val, head.next
"""
    tests = [
        "assert values(Solution().turn(nodes([1, 2, 3]))) == [3, 2, 1]",
        "assert values(Solution().turn(nodes([1, 2, 3]))) == [3, 2]",
        "head = nodes([1, 2])\nSolution().double(head)\nassert values(head) == [2, 4]",
    ]
    assert passed(program, *tests, setup=NODES) == [True, False, True]


@pytest.mark.parametrize(
    "setup", ["from math import *", "def g():\n    global isclose\n    from math import isclose\ng()"]
)
def test_names_that_a_setup_binds_unseen_are_never_the_programs(passed, setup):
    program = "def isclose(a, b): return True\n\ndef f(x): return 7"
    assert passed(program, "assert isclose(f(3), 4)", setup=setup) == [False]


def test_no_object_is_computed_with_what_is_expected(passed):
    program = (
        "class Yes:\n    def __sub__(self, other): return self\n    __isub__ = __rsub__ = __sub__\n"
        "    def __mul__(self, other): return self if other == 1 else 0\n"
        "    def __divmod__(self, other): return (0, 0)\n    def __abs__(self): return 0\n"
        "    def __bool__(self): return False\n"
    )
    tests = [
        "assert not (f(2) - 4)",
        "assert f(2) * 1 == 4",
        "a = f(2)\na -= 4\nassert abs(a) < 1",
        "assert not 4 - f(2)",
        "assert divmod(f(2), 4) == (0, 0)",
        "assert abs(f(2) - 4) < 1",
    ]
    assert passed(f"{program}def f(x): return Yes()", *tests) == [False] * 6
    assert passed(f"{program}def f(x): return Yes()", *(f"Yes\n{test}" for test in tests)) == [None] * 6


@pytest.mark.parametrize(
    ("program", "test", "verdict"),
    [
        ("def isclose(a, b): return True",
         "from math import isclose\nfrom main import *\nassert isclose(f(3), 4)", False),
        ("class Tree: pass\ndef f(x):\n    t = Tree()\n    t.equals = lambda other: True\n    return t",
         "class Tree:\n    v = 0\n    def equals(self, other): return self.v is other.v\n"
         "t = Tree()\nt.v = 4\nassert f(t).equals(t)", False),
        ("import unittest.mock\ndef f(x): return type(unittest.mock.ANY)",
         "import unittest.mock\nassert f(3)() == 4", False),
        ("class A:\n    startswith = yes\ndef f(x): return A()", "assert f(3).startswith('x')", None),
        ("class A:\n    issubset = yes\ndef f(x): return A()", "assert f(3).issubset({1, 2})", None),
        ("from collections import namedtuple\nA = namedtuple('A', 'count')\ndef f(x): return A(yes)",
         "assert f(3).count(4)", None),
        ("def f(x):\n    error = ValueError()\n    error.startswith = yes\n    return error",
         "assert f(3).startswith('x')", None),
        ("class A:\n    count = yes", "assert A().count(4)", True),  # which is what the test tests
    ],
)  # fmt: skip
def test_nothing_of_the_programs_takes_the_place_of_what_a_test_asks(passed, program, test, verdict):
    start = "def f(x): return 7\ndef yes(*arguments): return True\n"
    assert passed(start + program, test) == [verdict]


def test_what_says_nothing_of_a_program_has_no_verdict(passed):
    program = (
        "import random, warnings\nseen = 3\ndef f(x):\n    print(x)\n    warnings.warn('w')\n    return 1"
    )
    tests = [
        "assert f(object()) == 1",
        "import a_package_that_is_not_there\nassert f(2) == 1",
        "class D(f): pass",
        "import dataclasses\nassert dataclasses.asdict(f) == 1",
        "import random\nrandom.seed(0)\nassert f(1) == 7",
        "class C:\n    x = seen\nassert f(2) == 1",
        "import warnings\nwith warnings.catch_warnings(record=True) as caught: f(2)\nassert caught",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out: f(2)\n"
        "assert out.getvalue()",
    ]
    assert passed(program, *tests, "assert f(2) == 1") == [None] * 8 + [True]
    own = "class Own:\n    def __len__(self): return 2\n    def go(self, x): return x\nassert f(Own()) == 2"
    for missed in ("x.go(2)", "len(x)", "sum(x)"):
        assert passed(f"def f(x): return {missed}", own) == [None]
    for wrong in ("x.went(2)", "3", "1 + '2'"):
        assert passed(f"def f(x): return {wrong}", own) == [False]
    for error in ("ModuleNotFoundError('x')", "NameError('f', name='f')"):
        assert passed(f"def f(x): raise {error}", "assert f(2) == 1") == [False]


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("class F:\n    def __init__(s, *a): s.a = a\n    def __eq__(s, o): return max(s.a) == max(o.a)",
         "assert F(1, 2) == F(0, 2)"),
        ("class V:\n    def __eq__(s, o): return True", "assert V() == 3"),
        ("class V:\n    def __lt__(s, o): return True", "assert V() < 3"),
        ("class V:\n    def __contains__(s, o): return True\ndef f(): return V()", "assert V and 3 in f()"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int",
         "from dataclasses import asdict\nassert asdict(P(1)) == {'x': 1}"),
        ("class L(list):\n    def total(s): return sum(s)", "assert L([1, 2]).total() == 3"),
    ],
)  # fmt: skip
def test_what_a_class_of_the_programs_would_decide_has_no_verdict(passed, program, test):
    assert passed(program, test) == [None]


def test_a_class_named_with_line_breaks_writes_no_verdicts(passed_in_each):
    program = "Odd = type('Odd\\n1\\n1', (Exception,), {})\ndef f():\n    raise Odd\ndef g(value): pass"
    gives_it_back = "try:\n    f()\nexcept Exception as error:\n    g(error)"
    assert passed_in_each(program, gives_it_back, "assert g(1) == 2", "assert g(1) == 3") == [
        None,
        False,
        False,
    ]


NODE = "class Node:\n    def __init__(self, v, next=None):\n        self.v, self.next = v, next\n"
REVERSED = """
def f(head):
    before = None
    while head:
        head.next, before, head = before, head, head.next
    return before
"""


@pytest.mark.parametrize(
    ("program", "test", "is_right"),
    [
        ("def f(a, b): a.append(2); return len(b)", "x = [1]\nassert f(x, x) == 2 and x == [1, 2]", True),
        ("def f(a, b): a = a + [2]; return len(b)", "x = [1]\nassert f(x, x) == 2", False),
        ("def f(a, b): a.append(2); return len(b)", "x, y = [1], [1]\nassert f(x, y) == 2", False),
        ("def f(a, k): k[0] = 3; return a['q'][0]", "x = [1]\nassert f({'q': x}, k=x) == 3", True),
        ("def f(a, b): a += b'x'; return bytes(b)", "x = bytearray(b'1')\nassert f(x, x) == b'1x'", True),
        ("def f(g): g[0][0] = 5; return g[2][0]", "assert f([[0] * 3] * 3) == 5", True),
        ("def f(g): g[0] = [9]", "g = [[0]] * 3\nf(g)\nassert g == [[9], [0], [0]]", True),
        ("def f(a, b): a.append(b)", "a, b = [], []\nf(a, b)\nb.append(1)\nassert a == [[1]]", True),
        ("def f(n): return [[0]] * n", "r = f(2)\nr[0][0] = 1\nassert r == [[1], [0]]", False),
        ("def f(n): return [[0] for _ in range(n)]", "r = f(2)\nr[0][0] = 1\nassert r == [[1], [0]]", True),
        ("def f(a): return a[0]", "x = [[1], [2]]\nassert f(x) is x[0]", True),
        ("def f(a): return [1]", "x = [[1], [2]]\nassert f(x) is x[0]", False),
        ("def f(i, a): return a[0]", "x = [[1]]\nassert f(iter([[5], [6]]), x) is x[0]", True),
        ("def f(a): return a.next", NODE + "x = Node(1, Node(2))\nassert f(x) == x.next", True),
        ("def f(a): raise KeyError", "a = []\ntry: f(a)\nexcept KeyError: assert a", False),
        ("def f(a): return a", NODE + "x = Node(1, Node(2))\nassert f(x) == x.next", False),
        (REVERSED, NODE + "x = Node(1, Node(2))\ny = x.next\nassert f(x) is y and y.next is x", True),
        (
            "def f(d): return d['b']",
            "from collections import defaultdict as d\nassert f(d(lambda: 4)) == 4",
            True,
        ),
    ],
)
def test_a_container_stays_one_object_in_a_call(passed, program, test, is_right):
    assert passed(program, test) == [is_right]

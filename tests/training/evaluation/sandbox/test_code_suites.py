"""The programming suites on rows in the format of their data sets, scored by the reward `code`."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import zlib

import pytest
from tests.rollout.server_setup import FakeServer

from curro.cli import main
from curro.data import DataError, PromptSet
from curro.reward import resolve_reward
from curro.training.evaluation.code_suites import with_heads
from curro.training.evaluation.suites import SUITES, suite_prompts
from curro.training.plan import plan
from curro.training.settings import TrainSettings

HUMAN_EVAL = {
    "task_id": "HumanEval/900",
    "prompt": "from typing import List\n\ndef double(x: int) -> int:\n    return 2 * x\n\n"
    'def total(values: List[int]) -> int:\n    """The sum of the doubles."""\n',
    "entry_point": "total",
    "canonical_solution": "    return sum(double(x) for x in values)\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate([1, 2]) == double(3)\n"
    "    assert candidate([]) == 0\n",
}
MBPP = {
    "source_file": "Benchmark Questions.ipynb", "task_id": 2,
    "prompt": "Write a function to find a square root.",
    "code": "import math\ndef root(x):\n    return math.sqrt(x)", "test_imports": ["import math"],
    "test_list": ["assert root(9) == 3", "assert math.isclose(root(2), 1.41421356, rel_tol=1e-6)"],
}  # fmt: skip
TESTS = [{"input": "3\n", "output": "6\n", "testtype": "stdin"}]
LIVE = {
    "question_content": "Print twice the number.", "question_id": "1", "difficulty": "easy",
    "starter_code": "",
    "public_test_cases": json.dumps(TESTS), "private_test_cases": "[]", "metadata": "{}",
}  # fmt: skip


def packed(tests) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def scores(tmp_path, name, row, *programs):
    path = tmp_path / "suite.jsonl"
    path.write_text(json.dumps(row) + "\n")
    suite = SUITES[name]
    prompts = suite_prompts(suite, data=str(path))
    reward = with_heads(resolve_reward(suite.reward, prompts), prompts)
    texts = [f"So:\n```python\n{program}\n```\nThat is it." for program in programs]
    return prompts[0], reward.score(texts, [prompts[0]] * len(programs))


def test_human_eval(tmp_path):
    whole = HUMAN_EVAL["prompt"] + HUMAN_EVAL["canonical_solution"]
    alone = "def total(values: List[int]) -> int:\n    return sum(double(x) for x in values)"
    row, found = scores(
        tmp_path, "HumanEval", HUMAN_EVAL, whole, alone, whole.replace("sum", "max"), "total = 3"
    )
    # the sum and the maximum of doubles agree on none of two asserts: max([]) raises
    assert found == [1.0, 1.0, 0.0, 0.0], "imports and functions of the head need not be repeated"
    assert "def total(values: List[int])" in row["prompt"][0]["content"]
    assert "check" not in row["prompt"][0]["content"]


def test_each_assert_of_human_eval_s_check_is_a_test(tmp_path):
    check = """
METADATA = {"author": "jt"}

def helper(x):
    return 2 * x

def check(candidate):
    assert True, "printed if this fails"
    expected = helper(3)
    assert candidate([1, 2]) == expected, "first"
    assert candidate([]) == 0
    for i in range(3):
        assert candidate([i]) == helper(i)
    assert helper(candidate([1])) == 4
"""
    row, found = scores(
        tmp_path,
        "HumanEval",
        HUMAN_EVAL | {"test": check},
        HUMAN_EVAL["prompt"] + HUMAN_EVAL["canonical_solution"],
        "def total(values): return 6 if len(values) == 2 else 0",  # the first two of four
        "def total(values): return 2 * max(values)",  # the last two
        "def other(values): return 0",
        "def helper(x): return 0\ndef total(values): return 0",  # the helper stays the tests' own
    )
    assert len(row["tests"]) == 4
    assert found == [1.0, 0.5, 0.5, 0.0, 0.25]


def test_a_check_that_returns_is_one_test(tmp_path):
    check = "def check(candidate):\n    assert candidate([]) == 0\n    return\n"
    row, found = scores(tmp_path, "HumanEval", HUMAN_EVAL | {"test": check}, "def total(values): return 0")
    assert (len(row["tests"]), found) == (1, [1.0])


def test_a_training_evaluates_a_suite_as_the_command_does(tmp_path, monkeypatch):
    """With the code that stands before the program, and without problems whose packages are missing."""
    path = tmp_path / "suite.jsonl"
    path.write_text(json.dumps(HUMAN_EVAL) + "\n")
    row = suite_prompts(SUITES["HumanEval"], data=str(path))[0]
    prompts = PromptSet([row, {**row, "key": "other", "missing": ["no_such_package"]}])
    monkeypatch.setattr("curro.training.plan.suite_prompts", lambda *_, **__: prompts)
    (held_out,) = plan(TrainSettings(data="lab:chains", limit=8, eval_data="HumanEval")).held_out
    assert len(held_out.prompts) == 1
    alone = "def total(values: List[int]) -> int:\n    return sum(double(x) for x in values)"
    assert held_out.reward.score([f"```python\n{alone}\n```"], [held_out.prompts[0]]) == [1.0]


def test_mbpp(tmp_path):
    wrong, half = MBPP["code"].replace("sqrt(x)", "sqrt(x) + 1"), "def root(x): return 3"
    row, found = scores(tmp_path, "MBPP", MBPP, MBPP["code"], wrong, half)
    assert found == [1.0, 0.0, 0.5]
    assert row["prompt"][0]["content"].startswith("Write a function to find a square root.")
    assert "assert root(9) == 3" in row["prompt"][0]["content"]


def test_the_whole_of_mbpp_has_other_columns(tmp_path):
    row = {"text": "Write a function.", "test_list": ["assert f(N) == 2"], "test_setup_code": "N = 1"}
    row, found = scores(tmp_path, "MBPP-full", row, "def f(x): return 2 * x", "def f(x): return x")
    assert found == [1.0, 0.0]
    assert row["prompt"][0]["content"].startswith("Write a function.")


@pytest.mark.parametrize("pack", [json.dumps, packed])
def test_live_code_bench_with_standard_input(tmp_path, pack):
    more = [{"input": "100\n", "output": "200", "testtype": "stdin"}]
    double, add = "print(2 * int(input()))", "print(int(input()) + 3)"
    row, found = scores(tmp_path, "LiveCodeBench", LIVE | {"private_test_cases": pack(more)}, double, add)
    assert found == [1.0, 0.0], "the private test finds the second out"
    assert "100" not in row["prompt"][0]["content"]


def test_live_code_bench_with_a_method(tmp_path):
    starter = "class Solution:\n    def twice(self, x: int, y: List[int]) -> int:\n        "
    tests = [{"input": "3\n[1, 2]", "output": "[6, 2]", "testtype": "functional"}]
    given = {"starter_code": starter, "metadata": json.dumps({"func_name": "twice"})}
    row = LIVE | given | {"public_test_cases": json.dumps(tests)}
    right = "class Solution:\n    def twice(self, x, y):\n        return [2 * x, len(y)]"
    asked, found = scores(tmp_path, "LiveCodeBench", row, right, right.replace("2 *", "3 *"))
    assert found == [1.0, 0.0]
    assert starter in asked["prompt"][0]["content"]


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("made by a pickle",))


@pytest.mark.parametrize(
    "data", [pickle.dumps(Hostile()), pickle.dumps(["[]", "[1]"]), pickle.dumps(3), b"no pickle at all"]
)
def test_private_tests_are_never_unpickled(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    row = LIVE | {"private_test_cases": base64.b64encode(zlib.compress(data)).decode()}
    with pytest.raises(DataError, match=r"suite.jsonl:1 is no problem of the suite LiveCodeBench"):
        scores(tmp_path, "LiveCodeBench", row, "")
    assert not (tmp_path / "made by a pickle").exists()


def test_a_row_that_lacks_its_tests(tmp_path):
    with pytest.raises(DataError, match=r"suite.jsonl:1 .*KeyError: 'entry_point'"):
        scores(tmp_path, "HumanEval", {n: v for n, v in HUMAN_EVAL.items() if n != "entry_point"}, "")


BIG_CODE = {
    "task_id": "BigCodeBench/900",
    "complete_prompt": "import json\nimport os\n\ndef task_func(path):\n"
    '    """Count the keys of a JSON file."""\n',
    "instruct_prompt": "Count the keys of a JSON file.\nYou should write self-contained code starting with:\n"
    "```\nimport json\nimport os\ndef task_func(path):\n```",
    "canonical_solution": "    with open(path) as file:\n        return len(json.load(file))\n",
    "code_prompt": "import json\nimport os\ndef task_func(path):\n",
    "test": """import unittest
from unittest.mock import patch
import numpy as np

class TestCases(unittest.TestCase):
    def setUp(self):
        with open("keys.json", "w") as file:
            json.dump({"a": 1, "b": 2}, file)

    def tearDown(self):
        os.remove("keys.json")

    def test_two(self):
        self.assertEqual(task_func("keys.json"), 2)

    def test_array(self):
        for n in range(3):
            with self.subTest(n=n), patch("json.load", return_value=np.zeros(n)):
                self.assertEqual(task_func("keys.json"), n)
""",
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['json', 'os']",
}


def test_big_code_bench(tmp_path):
    """Tests replace what the program calls, hand it arrays, and look at files; the head brings imports."""
    right = "def task_func(path):\n    with open(path) as file:\n        return len(json.load(file))"
    programs = {
        right: 1.0,
        right.replace("len", "1 + len"): 0.0,
        right.replace("len(json.load(file))", "2"): 0.0,
        f"{right}\nos._exit(0)": 0.0,
        f"{right}\nraise SystemExit": 0.0,
        "x = 3": 0.0,
        "no program": 0.0,
    }
    row, found = scores(tmp_path, "BigCodeBench", BIG_CODE, *programs)
    assert found == list(programs.values())
    asked = row["prompt"][0]["content"]
    assert '"""Count' in asked
    assert "test_two" not in asked
    assert row["missing"] == []


def test_test_cases_one_by_one():
    """A share of the tests, all of them wrong where their fixture is; none where the program does not end."""
    tests = """import unittest
class TestCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        start()
    def test_right(self):
        self.assertTrue(value)
    def test_wrong(self):
        with self.subTest():
            self.assertFalse(value)
    @unittest.expectedFailure
    def test_unexpected(self):
        pass
    @unittest.skip("")
    def test_skipped(self):
        pass
"""
    row = {"tests": {"unittest": tests}}
    programs = ["value = 1\ndef start(): pass", "value = 1\ndef start(): 1 / 0"]
    reward = resolve_reward("code:partial=true,seconds=60,packages=true")
    assert reward.score(programs, [row] * 2) == [0.5, 0.0]
    reward = resolve_reward("code:partial=true,seconds=2,packages=true")
    assert reward.score(["while True: pass"], [row]) == [0.0]


def test_missing_packages_are_told_from_wrong_programs(tmp_path):
    test = BIG_CODE["test"].replace("import numpy", "import no_such_a, numpy")
    rows = [BIG_CODE | {"libs": "['no_such_b', 'json']", "test": test}, BIG_CODE]
    (tmp_path / "suite.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompts = suite_prompts(SUITES["BigCodeBench"], data=str(tmp_path / "suite.jsonl"))
    assert [row["missing"] for row in prompts] == [["no_such_a", "no_such_b"], []]


def test_an_evaluation_names_the_packages_that_are_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    lacking = BIG_CODE | {"libs": "['no_such_package', 'json']"}
    (tmp_path / "big.jsonl").write_text(json.dumps(lacking) + "\n" + json.dumps(BIG_CODE) + "\n")
    answer = "```python\ndef task_func(path):\n    return len(json.load(open(path)))\n```"
    fake = FakeServer()
    fake.pieces = [(answer, 11, -0.5), ("", 2, -0.125)]
    command = ["curro", "evaluate", "m", "--suite", "BigCodeBench", "--data", "big.jsonl", "--server"]
    with fake.running() as url:
        monkeypatch.setattr(sys, "argv", [*command, url])
        with pytest.raises(SystemExit) as stop:
            main()
    said = capsys.readouterr()
    assert not stop.value.code, said.err
    asked = [body for body in fake.requests if "solves the following" in json.dumps(body)]
    assert len(asked) == 1, "the other problem is not asked"
    assert "1.000 (0.207 to 1.000)" in said.out
    assert "1 problems (1 not asked, for lack of no_such_package) from" in " ".join(said.out.split())
    monkeypatch.setattr(sys, "argv", [*command, "http://localhost:1", "--limit", "1"])
    with pytest.raises(SystemExit):
        main()
    assert "every problem of BigCodeBench needs packages that are missing here" in capsys.readouterr().err

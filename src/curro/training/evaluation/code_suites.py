"""Rows of the programming suites: what is asked, and the tests as the reward `code` reads them.

Every function takes a row of its data set and returns the problem's text, `tests`, and if there are any
`setup` (executed before the tests), `before` (what stands before the model's program) and `missing` (the
packages that the tests import and that are not installed here).
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import pickletools
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from curro.core.errors import ConfigError
from curro.data.prompt_set import PromptSet
from curro.data.raw import Row
from curro.reward.programs import program_of
from curro.reward.reward import Reward, Verdict

STANDARD_INPUT = "Write a Python program that reads from standard input and writes to standard output."
"""What LiveCodeBench's problems end with, and the problems that METIS' recipe for programs trains on."""

_LARGEST_TESTS = 1 << 30
"""Bytes of a problem's private tests when they are unpacked."""


def human_eval(row: Row) -> Row:
    """Chen et al. (2021): the head of a function, to be completed, and a function `check` of the tests.

    The head also stands before the program: it has imports and functions that the tests call. Each assert of
    `check` is a test of its own, so that the share of them that pass can be told.
    """
    problem = f"Complete this Python function. Write the whole function.\n\n```python\n{row['prompt']}```"
    function = row["entry_point"]
    setup, tests = _checks(row["test"], function)
    fields = {"problem": problem, "tests": tests, "setup": setup, "fn_name": function}
    return {**fields, "before": row["prompt"]}


def _checks(source: str, function: str) -> tuple[str, list[str]]:
    """What stands around the function `check(candidate)`, and its body as tests, one for each assert.

    A statement without an assert stands before the next one with it; a loop with asserts is one test, and an
    assert of a constant is none.
    """
    module = ast.parse(source)
    check = next(
        (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None
    )
    one_test = "", [f"{source}\n\ncheck({function})"]
    if check is None or any(isinstance(node, ast.Return | ast.Yield) for node in ast.walk(check)):
        return one_test
    tests: list[str] = []
    statements: list[str] = []
    for statement in check.body:
        asserts = [node for node in ast.walk(statement) if isinstance(node, ast.Assert)]
        if asserts and all(isinstance(node.test, ast.Constant) and node.test.value for node in asserts):
            continue
        statements.append(ast.unparse(statement))
        if asserts:
            tests.append("\n".join(statements))
            statements = []
    other_source = [ast.unparse(node) for node in module.body if node is not check]
    setup = "\n".join([*other_source, f"{check.args.args[0].arg} = {function}"])
    return (setup, tests) if tests else one_test


def mbpp(row: Row) -> Row:
    """Austin et al. (2021), sanitised or whole: a task in words, and asserts that the prompt shows."""
    asserts = list(row["test_list"])
    task = row["prompt"] if "prompt" in row else row["text"]
    problem = f"{task}\n\nYour Python code should pass these tests:\n\n" + "\n".join(asserts)
    setup = [*(row.get("test_imports") or ()), row.get("test_setup_code") or ""]
    return {"problem": problem, "tests": asserts, "setup": "\n".join(setup).strip()}


def live_code_bench(row: Row) -> Row:
    """Jain et al. (2024): programs that read and write, or a method of a class; public and private tests."""
    tests = json.loads(row["public_test_cases"]) + _private(row["private_test_cases"])
    problem, starter = row["question_content"], row.get("starter_code") or ""
    if starter:
        problem += f"\n\nWrite Python code that starts so:\n\n```python\n{starter}\n```"
    else:
        problem += f"\n\n{STANDARD_INPUT}"
    name = json.loads(row.get("metadata") or "{}").get("func_name")
    pairs = [{"input": test["input"], "output": test["output"]} for test in tests]
    return {"problem": problem, "tests": [{**pair, "fn_name": name} for pair in pairs] if name else pairs}


def _private(text: str) -> list[Any]:
    """Tests as JSON, or as JSON in a pickle, compressed, in base64: one string is read, nothing executed."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(text), _LARGEST_TESTS)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"its private tests are neither JSON nor compressed: {error}") from None
    strings = [value for _, value, _ in pickletools.genops(data) if isinstance(value, str)]
    if unpacker.unconsumed_tail or len(strings) != 1:
        raise ValueError("its private tests are not one text of JSON")
    return json.loads(strings[0])


def big_code_bench(row: Row) -> Row:
    """Zhuo et al. (2024): a function that calls libraries, and test cases of the module `unittest`.

    As the authors do, the head of the function with an empty body stands before the program: it has imports
    that the tests need.
    """
    before = f"{row['code_prompt']}\n    pass\n"
    needed = {*ast.literal_eval(row["libs"]), *_imported(before), *_imported(row["test"])}
    problem = (
        f"Write a self-contained Python script that solves the following problem.\n\n{row['complete_prompt']}"
    )
    missing = sorted(name for name in needed if not _installed(name))
    return {"problem": problem, "tests": {"unittest": row["test"]}, "before": before, "missing": missing}


def _imported(source: str) -> set[str]:
    """The packages that a program imports at its top level or below."""
    packages = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
    return packages


@cache
def _installed(package: str) -> bool:
    return package in sys.stdlib_module_names or find_spec(package) is not None


READERS: dict[str, Callable[[Row], Row]] = {
    "human-eval": human_eval,
    "mbpp": mbpp,
    "live-code-bench": live_code_bench,
    "big-code-bench": big_code_bench,
}
"""By a suite's `reader`."""


def askable(name: str, prompts: PromptSet) -> tuple[PromptSet, list[list[str]]]:
    """The problems whose tests can run here, and the packages that each of the others lacks."""
    missing = [row.get("missing") or [] for row in prompts]
    if all(missing):
        packages = ", ".join(sorted({package for names in missing for package in names}))
        raise ConfigError(f"every problem of {name} needs packages that are missing here: {packages}")
    ids = [i for i, names in enumerate(missing) if not names]
    return prompts.subset(ids), [names for names in missing if names]


def with_heads(reward: Reward, prompts: PromptSet) -> Reward:
    """The reward of a suite; where rows have a `before`, which stands before the program, `code` with it."""
    if not any(row.get("before") for row in prompts):
        return reward

    def whole(completions: Sequence[str], rows: Sequence[Row]) -> list[str]:
        return [
            f"```python\n{row['before']}\n{program_of(completion)}\n```" if row.get("before") else completion
            for completion, row in zip(completions, rows, strict=True)
        ]

    def verify(completions: Sequence[str], rows: Sequence[Row]) -> Sequence[Verdict]:
        return reward.verify(whole(completions, rows), rows)

    return Reward(reward.name, verify)

"""Tests of programs as data sets have them: what is run or executed, and what is compared."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.literals import read, value_of
from curro.reward.reward import key


@dataclass(frozen=True)
class Tests:
    """Runs with an input and an expected output, or statements that must not raise, or test cases.

    Attributes:
        runs: (standard input, expected standard output) of each run.
        asserts: each a test of its own.
        setup: what the asserts need, executed before them.
        function: the name of the function that the asserts test, where it is known.
        unittests: source text with a class `TestCases` of the module `unittest`.
    """

    __test__ = False  # not pytest's

    runs: tuple[tuple[str, str], ...] = ()
    asserts: tuple[str, ...] = ()
    setup: str = ""
    function: str = ""
    unittests: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names that the tests use, by which the program is told from an example of its use."""
        return frozenset(re.findall(r"[A-Za-z_]\w*", " ".join([self.function, *self.asserts])))


def read_tests(row: Row) -> Tests | None:
    """The tests of a row: of its column `tests`, else of its answer; None where it has neither.

    Shapes, as they are or as JSON, also within `{"test_cases": ...}`:

    * `[{"input": ..., "output": ...}, ...]`. A function is called if `fn_name` names it, or `func_name` in
      the `metadata` of a test or of the row (`testtype` functional): the inputs are its arguments in JSON;
    * `{"inputs": [...], "outputs": [...]}`, with `"fn_name"`: arguments and what the function returns
      (without it, the row's `fn_name` where an input is no text);
    * `["assert f(1) == 2", ...]`, or one text of Python. The row's `setup` (or MBPP's `test_imports` and
      `test_setup_code`) is executed before. The row's `fn_name` (or `entry_point`) is the function that is
      tested. It is needed if Python has a function of that name, and if the text defines `check(candidate)`,
      which is then called with it. Functions `test_...` that nothing calls are called, as pytest does;
    * `{"unittest": "class TestCases(unittest.TestCase): ..."}`.

    Raises:
        RewardError: the tests have none of these shapes, test nothing, or there are none; the message has the
            prompt's key.
    """
    raw_tests = row.get("tests")
    if raw_tests is None:
        raw_tests = row.get("answer")
    if raw_tests is None:
        return None
    try:
        tested = row.get("fn_name") or row.get("entry_point") or _function_of(row.get("metadata"))
        setup = "\n".join(_text(row[column]) for column in _SETUP if row.get(column))
        tests = _read(_from_text(raw_tests), setup, str(tested or ""))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RewardError(
            f"the tests of the prompt {key(row)} cannot be read: {type(error).__name__}: {error!s:.300}"
        ) from None
    if not (tests.runs or tests.asserts or tests.unittests):
        raise RewardError(f"the prompt {key(row)} has no tests")
    return tests


_SETUP = ("test_imports", "setup", "test_setup_code")


def _from_text(tests: Any) -> Any:
    """Tests as data; a text that is none is Python."""
    content = read(tests)
    return [tests] if isinstance(tests, str) and not isinstance(content, list | dict) else content


def _function_of(metadata: Any) -> str | None:
    """The name under `func_name` (or `fn_name`) in a test's or a row's metadata, which may be JSON."""
    metadata = read(metadata)
    if not isinstance(metadata, dict):
        return None
    return metadata.get("func_name") or metadata.get("fn_name") or None


_WRAPPERS = ("test_cases", "input_output", "assert_case", "tests", "unit_tests", "functional", "pytest")
_INPUT = ("input", "stdin", "inputs")
_OUTPUT = ("output", "expected_output", "stdout", "outputs", "expected")


def _either(test: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if name in test:
            return test[name]
    raise ValueError(
        f"a test has none of {', '.join(names)}: it has {', '.join(map(str, test)) or 'nothing'}"
    )


def _read(tests: Any, setup: str, tested: str) -> Tests:
    if not isinstance(tests, Iterable):
        raise TypeError(f"tests are a list, a dict or a text of Python, not {tests!r:.60}")
    for name in _WRAPPERS:
        if isinstance(tests, dict) and name in tests:
            return _read(_from_text(tests[name]), setup, str(tests.get("fn_name") or tested))
    if isinstance(tests, dict) and "unittest" in tests:
        if not re.search(r"class TestCases\b.*\bdef test", _text(tests["unittest"]), re.DOTALL):
            raise ValueError("a class TestCases with methods test_... is what is run, and there is none")
        return Tests(unittests=_text(tests["unittest"]))
    if isinstance(tests, dict):
        function = tests.get("fn_name") or None
        inputs, outputs = _either(tests, _INPUT), _either(tests, _OUTPUT)
        if isinstance(inputs, str):  # JSON, or one test alone
            inputs, outputs = (read(inputs), read(outputs)) if "inputs" in tests else ([inputs], [outputs])
        pairs = list(zip(inputs, outputs, strict=True))
    elif len(tests := [*tests]) and all(isinstance(test, str) for test in tests):
        return _statements(tests, setup, tested)
    else:
        named = (test.get("fn_name") or _function_of(test.get("metadata")) for test in tests)
        is_functional = any(test.get("testtype") == "functional" for test in tests)
        function = next(filter(None, named), tested if is_functional else None)
        if is_functional and not function:
            raise ValueError("functional tests name no function: give the row fn_name, or metadata.func_name")
        pairs = [(_either(test, _INPUT), _either(test, _OUTPUT)) for test in tests]
        if any(test.get("type") == "function_call" for test in tests):
            # SYNTHETIC-2 has a list of arguments and the result as JSON
            pairs = [tuple(value_of(v) if isinstance(v, str) else v for v in pair) for pair in pairs]
    if not function and any(_is_argument(part) for given, _ in pairs for part in _parts(given)):
        function = tested
    if function:
        if pairs and all(expected in (None, "null", "None") for _, expected in pairs):
            raise ValueError("they test nothing: every expected result is null")
        calls = tuple(_call(function, *pair) for pair in pairs)
        return Tests(asserts=calls, setup=_CALLS + setup, function=FUNCTION)
    runs = tuple((_text(stdin).replace("\r\n", "\n"), _text(expected)) for stdin, expected in pairs)
    if runs and not any(expected.split() for _, expected in runs):
        raise ValueError("they test nothing: every expected output is empty")
    return Tests(runs=runs)


def _is_argument(part: Any) -> bool:
    """Whether a part of an input is no line of standard input: no text, or `nums = [3,3], target = 6`."""
    return not isinstance(part, str) or re.match(r"[A-Za-z_]\w* = ", part) is not None


def _parts(given: Any) -> list[Any]:
    """The lines of an input of text, or its arguments."""
    return [*given.values()] if isinstance(given, dict) else given if isinstance(given, list) else [given]


def _statements(texts: Sequence[str], setup: str, tested: str) -> Tests:
    """Tests that are Python: each text a test, and what tests nothing stands before the next that does.

    Raises:
        ValueError: none of the texts tests anything, or functions of theirs that do want arguments.
    """
    asserts, before = [], ""
    for text in texts:
        try:
            tree = _AsModule().visit(ast.parse(text))
        except SyntaxError as error:
            raise ValueError(f"{text!r:.60} is not Python: {error.msg}") from None
        if any(
            isinstance(node, ast.AsyncFunctionDef | ast.Await) or "asyncio" in vars(node).values()
            for node in ast.walk(tree)
        ):
            raise ValueError("asynchronous tests are not supported")
        calls = [] if _tests_something(tree) else _uncalled(tree, tested)
        text = ast.unparse(tree)
        if not calls and not _tests_something(tree):
            before += f"{text}\n"
        elif calls and len(texts) == 1:
            setup, asserts = f"{setup}\n{text}", calls
        else:
            asserts.append("\n".join([before + text, *calls]))
            before = ""
    if not asserts:
        raise ValueError(
            "they test nothing: they define or assign, and neither assert nor call; a text with "
            "check(candidate) needs the name of the function, as the row's fn_name or entry_point"
        )
    return Tests(asserts=tuple(asserts), setup=setup, function=tested)


class _AsModule(ast.NodeTransformer):
    """Tests as they are executed: the statements of `__main__` are the module's, and no runner is called."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        is_main = isinstance(node.test, ast.Compare) and "__name__" in ast.unparse(node.test)
        return (node.body or ast.Pass()) if is_main else node

    def visit_Expr(self, node: ast.Expr) -> Any:
        self.generic_visit(node)
        is_runner = re.match(
            r"(?:unittest|pytest)\.main\(|(?:sys\.)?exit\((?:0|unittest|pytest)", ast.unparse(node)
        )
        return ast.Pass() if is_runner else node

    def visit_Call(self, node: ast.Call) -> Any:
        """`type(x)` asks x, which may stand for an object of the program's."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1:
            return ast.Attribute(node.args[0], "__class__", ast.Load())
        return node


def _tests_something(tree: ast.Module) -> bool:
    """Whether executing the statements asserts something that is no constant, raises, or calls."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Assert):
            is_false = isinstance(node.test, ast.Constant) and not node.test.value
            if is_false or any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node.test)):
                return True
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return True
        waiting += ast.iter_child_nodes(node)
    return False


def _uncalled(tree: ast.Module, tested: str) -> list[str]:
    """Calls of what nothing calls: pytest's `test_...`, else HumanEval's `check`.

    Raises:
        ValueError: what only a framework runs: classes, and functions with arguments or decorators.
    """
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = [item for node in classes if node.name.startswith("Test") or node.bases for item in node.body]
    wanted = [node for node in functions if node.name.startswith("test")]
    if any(node.args.args or node.decorator_list for node in wanted) or any(
        isinstance(item, ast.FunctionDef) and item.name.startswith("test") for item in methods
    ):
        raise ValueError("methods test_..., and functions with fixtures or decorators, are not supported")
    if not wanted and tested and any(node.name == "check" and len(node.args.args) == 1 for node in functions):
        return [f"check({tested})"]
    return [f"{node.name}()" for node in wanted]


TOLERANCE = 1e-6
"""Numbers with a point or an exponent are the same if they differ by less, relative to the larger of 1 and
what is expected, as judges of competitions have it."""
FUNCTION = "_function"
"""By this name tests find the program's function, whatever its name is."""

_CALLS = f"""
def _plain(value):
    whole = (str, bytes, bytearray, dict, set, frozenset)
    if isinstance(value, whole) or not hasattr(value, "__iter__"):
        return value
    return [_plain(item) for item in value]

def _equal(got, expected):
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(map(_equal, got, expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        if got.keys() != expected.keys():
            got = {{str(key): value for key, value in got.items()}}  # as JSON has them
        return got.keys() == expected.keys() and all(_equal(_plain(got[k]), _plain(expected[k])) for k in got)
    if type(got) in (int, float) and type(expected) in (int, float) and float in (type(got), type(expected)):
        is_nan = got != got and expected != expected
        return is_nan or got == expected or abs(got - expected) <= {TOLERANCE} * max(1, abs(expected))
    return got == expected

def _same(got, expected):
    got, expected = _plain(got), _plain(expected)
    if isinstance(got, (set, frozenset)) and isinstance(expected, list):
        got, expected = sorted(got, key=repr), sorted(expected, key=repr)
    return _equal(got, expected) or (isinstance(expected, list) and _equal([got], expected))
"""
"""How results of functions are compared: JSON has no tuples, iterators and sets, and some data sets wrap
results in a list."""


def _call(function: str, inputs: Any, expected: Any) -> str:
    """An assert for a call: arguments as a list, by name, or each on a line; one result, or its text.

    It takes the function from `_function`, so that its name is the program's whatever it is.
    """
    function = re.sub(r"\ASolution(?:\(\))?\.", "", str(function))
    if not function.isidentifier():
        raise ValueError(f"fn_name {function!r} is no name of a function")
    is_text = isinstance(inputs, str)
    result = value_of(expected) if is_text and isinstance(expected, str) else expected
    if is_text:
        arguments = ", ".join(_argument(line) for line in inputs.split("\n") if line.strip())
    elif isinstance(inputs, list | dict):
        arguments = ("*" if isinstance(inputs, list) else "**") + _literal(inputs)
    else:
        raise TypeError(f"the arguments of {function} are a list, not {inputs!r:.60}")
    return f"assert _same(_function({function!r})({arguments}), {_literal(result)})"


def _argument(line: str) -> str:
    """Python's notation of an argument, or of several as LeetCode writes them: `nums = [2,7], target = 9`."""
    try:
        value = value_of(line)
        if not isinstance(value, tuple):  # 1, 2 are two arguments, and (1, 2) is one
            return _literal(value)
    except ValueError:
        value = None
    try:
        call = ast.parse(f"f({line})", mode="eval").body
    except SyntaxError:
        call = ast.Constant(None)
    if not isinstance(call, ast.Call) or (value is None and not call.keywords):
        raise ValueError(f"{line!r:.60} is neither JSON nor Python")
    named = ((word.arg, value_of(ast.unparse(word.value))) for word in call.keywords)
    return ", ".join([*(repr(ast.literal_eval(a)) for a in call.args), *(f"{n}={v!r}" for n, v in named)])


def _literal(value: Any) -> str:
    """Python's notation of a value of JSON; long integers in hexadecimal, which has no limit."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {_literal(item)}' for name, item in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return hex(value) if isinstance(value, int) and abs(value) >> 64 else repr(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"an input or output is a text, not {value!r:.60}")
    return value

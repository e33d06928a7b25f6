"""Programs against tests, each in a confined process of its own."""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from curro.core.errors import ConfigError, RewardError
from curro.data.raw import Row
from curro.reward.answers import outside_thoughts, without_end_tokens
from curro.reward.reward import Score, key
from curro.reward.sandbox import Limits, ProgramNotBegun, find_confinement, run
from curro.reward.sandbox.bubblewrap import INSTALL
from curro.reward.sandbox.inside.wire import global_names
from curro.reward.sandbox.program_tests import run_asserts, run_unittests
from curro.reward.workers.forks import in_forked_processes


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
    * `{"inputs": [...], "outputs": [...]}`, with `"fn_name"`: arguments and what the function returns;
    * `["assert f(1) == 2", ...]`, or one text of Python. The row's `setup` is executed before, and its
      `fn_name` (or `entry_point`) is the function that is tested. It is needed if Python has a function of
      that name, and if the text defines `check(candidate)`, which is then called with it. Functions
      `test_...` that nothing calls are called, as pytest does;
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
        tests = _read(_from_json(raw_tests), str(row.get("setup") or ""), str(tested or ""))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RewardError(
            f"the tests of the prompt {key(row)} cannot be read: {type(error).__name__}: {error!s:.300}"
        ) from None
    if not (tests.runs or tests.asserts or tests.unittests):
        raise RewardError(f"the prompt {key(row)} has no tests")
    return tests


def _from_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_int=_integer)
    except ValueError:
        return [value]


def _integer(digits: str) -> int:
    """A whole number of any length; `int` refuses more than 4,300 digits."""
    return int(Decimal(digits)) if len(digits) > 4000 else int(digits)


def _function_of(metadata: Any) -> str | None:
    """The name under `func_name` (or `fn_name`) in a test's or a row's metadata, which may be JSON."""
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except ValueError:
            return None
    if not isinstance(metadata, dict):
        return None
    return metadata.get("func_name") or metadata.get("fn_name") or None


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
    for name in ("test_cases", "assert_case", "tests"):
        if isinstance(tests, dict) and name in tests:
            return _read(tests[name], setup, str(tests.get("fn_name") or tested))
    if isinstance(tests, dict) and "unittest" in tests:
        if not re.search(r"class TestCases\b.*\bdef test", _text(tests["unittest"]), re.DOTALL):
            raise ValueError("a class TestCases with methods test_... is what is run, and there is none")
        return Tests(unittests=_text(tests["unittest"]))
    if isinstance(tests, dict):
        function = tests.get("fn_name") or None
        inputs, outputs = _either(tests, _INPUT), _either(tests, _OUTPUT)
        pairs = list(zip(inputs, outputs, strict=True))
    elif tests and all(isinstance(test, str) for test in tests):
        return _statements(tests, setup, tested)
    else:
        named = (test.get("fn_name") or _function_of(test.get("metadata")) for test in tests)
        is_functional = any(test.get("testtype") == "functional" for test in tests)
        function = next(filter(None, named), tested if is_functional else None)
        if is_functional and not function:
            raise ValueError("functional tests name no function: give the row fn_name, or metadata.func_name")
        pairs = [(_either(test, _INPUT), _either(test, _OUTPUT)) for test in tests]
    if function:
        calls = tuple(_call(function, *pair) for pair in pairs)
        return Tests(asserts=calls, setup=_CALLS + setup, function=_FUNCTION)
    runs = tuple((_text(stdin), _text(expected)) for stdin, expected in pairs)
    if runs and not any(expected.split() for _, expected in runs):
        raise ValueError("they test nothing: every expected output is empty")
    return Tests(runs=runs)


def _statements(texts: Sequence[str], setup: str, tested: str) -> Tests:
    """Tests that are Python: each text a test, and what tests nothing stands before the next that does.

    Raises:
        ValueError: none of the texts tests anything, or functions of theirs that do want arguments.
    """
    asserts, before = [], ""
    for text in texts:
        try:
            tree = _AsModule().visit(ast.parse(text))
        except SyntaxError:  # the test fails, and says so to nobody but the program
            asserts.append(before + text)
            continue
        calls = [] if _tests_something(tree) else _uncalled(tree, tested)
        text = ast.unparse(tree)
        if not calls and not _tests_something(tree):
            before += f"{text}\n"
        elif not calls:
            asserts.append(before + text)
            before = ""
        elif len(texts) == 1:
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


_BEFORE_EACH = ("setup_method", "setup", "setUp")


def _uncalled(tree: ast.Module, tested: str) -> list[str]:
    """Calls of what nothing calls: HumanEval's `check`, pytest's `test_...`, classes of both frameworks."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    wanted = [node for node in functions if node.name.startswith("test")]
    if any(node.args.args or node.decorator_list for node in wanted):
        raise ValueError("functions test_... that want arguments (fixtures, parameters) are not supported")
    if not wanted and tested and any(node.name == "check" and len(node.args.args) == 1 for node in functions):
        return [f"check({tested})"]
    calls = [
        f"{node.name}()"
        if isinstance(node, ast.FunctionDef)
        else f"import asyncio\nasyncio.run({node.name}())"
        for node in wanted
    ]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in node.bases):
            calls.append(f"_run_cases({node.name})")
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            before = "".join(f"_case.{name}()\n" for name in _BEFORE_EACH if name in methods)
            tests = (name for name in methods if name.startswith("test"))
            calls += [f"_case = {node.name}()\n{before}_case.{name}()" for name in tests]
    return calls


TOLERANCE = 1e-6
"""Numbers with a point or an exponent are the same if they differ by less, relative to the larger of 1 and
what is expected, as judges of competitions have it."""

_OTHER = """
class _Other:
    made = 0
    def __init__(self):
        _Other.made += 1
        self.number = _Other.made
"""

_FUNCTION = "_function"
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
    if not str(function).isidentifier():
        raise ValueError(f"fn_name {function!r} is no name of a function")
    is_text = isinstance(inputs, str)
    result = _value(expected) if is_text and isinstance(expected, str) else expected
    if is_text:
        arguments = ", ".join(_argument(line) for line in inputs.split("\n") if line.strip())
    elif isinstance(inputs, list | dict):
        arguments = ("*" if isinstance(inputs, list) else "**") + _literal(inputs)
    else:
        raise TypeError(f"the arguments of {function} are a list, not {inputs!r:.60}")
    return f"assert _same(_function({function!r})({arguments}), {_literal(result)})"


def _value(text: str) -> Any:
    """A value as JSON or as Python writes it."""
    try:
        return json.loads(text, parse_int=_integer)
    except ValueError:
        return ast.literal_eval(text.strip())


def _argument(line: str) -> str:
    """Python's notation of an argument, or of several as LeetCode writes them: `nums = [2,7], target = 9`."""
    try:
        return _literal(_value(line))
    except (ValueError, SyntaxError):
        call = ast.parse(f"f({line})", mode="eval").body
    if not isinstance(call, ast.Call) or not call.keywords:
        raise ValueError(f"{line!r:.60} is neither JSON nor Python")
    named = ((word.arg, ast.literal_eval(word.value)) for word in call.keywords)
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


def same_output(output: bytes, expected: str) -> bool:
    """Whether two texts have the same words on the same lines; white space around them does not count.

    Numbers with a point or an exponent may differ by `TOLERANCE`.
    """
    lines = _lines(output.decode("utf-8", "replace")), _lines(expected)
    if list(map(len, lines[0])) != list(map(len, lines[1])):
        return False
    words = zip(*([word for line in part for word in line] for part in lines), strict=True)
    return all(got == wanted or _close(got, wanted) for got, wanted in words)


def _lines(text: str) -> Sequence[list[str]]:
    lines = [line.split() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _close(got: str, wanted: str) -> bool:
    texts = got, wanted
    if not all(_NUMBER.fullmatch(text) and len(text) < 400 for text in texts):
        return False
    if all(text.lstrip("+-").isdigit() for text in texts):
        return False
    return abs(float(got) - float(wanted)) <= TOLERANCE * max(1.0, abs(float(wanted)))


_LONGEST_PROGRAM = 100_000
"""Characters; a longer program is wrong."""


class Code:
    """Right if the completion's program passes the row's tests; with `partial`, the share that it passes.

    `program_of` says which block of the completion is the program. A run passes if the program ends with
    status 0 and its output has the expected words on the expected lines; an assert if it raises nothing; a
    test case if it passes (`curro.reward.sandbox.program_tests`). A completion is not scored, and the log
    says why, if a test does what cannot be done from another process, or the program's own `==` decides it.

    Source: curro's own.

    Args:
        partial: the share of tests passed, instead of all or nothing.
        seconds: how many seconds a run may take from where the program begins; asserts or test cases of a
            program share them.
        memory_mib: the address space of each process, in MiB.
        processes: how many processes and threads a program may have at a time.
        sandbox: "auto", "required" (nothing that leaves files or network open) or "none"
            (`curro.reward.sandbox.find_confinement`).
        packages: whether programs can import this environment's packages, and read their files.
        workers: how many programs run at a time; by default the number of processor cores.
    """

    def __init__(
        self,
        partial: bool = False,
        seconds: float = 6.0,
        memory_mib: int = 1024,
        processes: int = 16,
        sandbox: str = "auto",
        packages: bool = False,
        workers: int = 0,
    ) -> None:
        if workers < 0:
            raise ConfigError(f"code: workers is a number of programs at a time, not {workers}")
        self.partial, self.packages = partial, packages
        self.limits = Limits(seconds=seconds, memory_mib=memory_mib, processes=processes)
        self.confinement = find_confinement(sandbox)
        self._workers = workers or os.cpu_count() or 1
        self._warned_of: set[str] = set()
        self._has_warned_of_packages = False
        self._vacuous: dict[Tests, bool] = {}
        self.start_threads()
        _codes.add(self)

    def start_threads(self) -> None:
        """Begin anew in a forked process, where the threads of its parent are not."""
        self._threads = ThreadPoolExecutor(self._workers, "curro-code")

    @property
    def note(self) -> str:
        """A sentence for the user: how programs are confined."""
        return self.confinement.sentence

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The scores, `workers` programs at a time; None without tests, or if a program could not begin."""
        return [None if future is None else future.result() for future in self._begin(completions, rows)]

    async def verify_async(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """As a call, while the event loop goes on."""
        pending = self._begin(completions, rows)
        futures = [asyncio.wrap_future(future) for future in pending if future is not None]
        scores = iter(await asyncio.gather(*futures))
        return [None if future is None else next(scores) for future in pending]

    def _begin(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Future[Score] | None]:
        """A future for every completion that has tests; equal programs of a prompt share one."""
        futures: dict[tuple[str, Tests, str], Future[Score]] = {}
        pending: list[Future[Score] | None] = []
        for completion, row in zip(completions, rows, strict=True):
            tests = read_tests(row)
            if tests is None:
                pending.append(None)
                continue
            job = program_of(completion, tests.names), tests, key(row)
            if tests.unittests and not self.confinement.has_folder:
                raise RewardError(
                    f"the tests of the prompt {key(row)} are of the module unittest, which needs a folder to "
                    f"write to, and Landlock leaves none: install bubblewrap ({INSTALL})"
                )
            if job not in futures:
                futures[job] = self._threads.submit(self._score, *job)
            pending.append(futures[job])
        return pending

    def _score(self, program: str, tests: Tests, prompt: str) -> Score:
        if len(program) > _LONGEST_PROGRAM:
            return 0.0
        try:
            passed = self._passed(with_imports(program, tests.names), tests)
            if passed and all(verdict is True for verdict in passed) and self._are_vacuous(tests):
                raise RewardError(
                    f"the tests of the prompt {prompt} test nothing: functions that do nothing pass"
                )
        except (ProgramNotBegun, OSError) as error:  # the latter where there are no more files, say
            self._warn(str(error))
            return None
        reason = next((verdict for verdict in passed if isinstance(verdict, str)), None)
        if reason is not None:
            self._warn(reason)
            return None
        if not all(passed) and not self.packages:
            self._warn_of_packages(program)
        share = sum(map(bool, passed)) / (len(tests.asserts) or len(tests.runs) or len(passed) or 1)
        return share if self.partial else float(share == 1.0)

    def _passed(self, program: str, tests: Tests) -> Sequence[bool | str]:
        if tests.asserts:
            return self._asserts(program, tests)
        return self._unittests(program, tests) if tests.unittests else self._runs(program, tests)

    def _are_vacuous(self, tests: Tests) -> bool:
        """Whether programs pass that do nothing: the tests call nothing, or look at no result."""
        if tests.runs or tests.function == _FUNCTION:
            return False
        if tests not in self._vacuous:
            used, bound = global_names("\n".join([tests.setup, *tests.asserts]))
            names = sorted((used | {tests.function}) - bound - {*dir(builtins), ""})
            values = ("None", "_Other()")
            programs = (
                _OTHER + "".join(f"def {name}(*a, **k): return {value}\n" for name in names)
                for value in values
            )
            verdicts = (verdict for program in programs for verdict in self._passed(program, tests))
            self._vacuous[tests] = all(verdict is True for verdict in verdicts)
        return self._vacuous[tests]

    def _warn(self, reason: str) -> None:
        """Say why completions are not scored, once for each reason."""
        if reason not in self._warned_of:
            self._warned_of.add(reason)
            warnings.warn(f"{reason}; such completions are not scored", RuntimeWarning, stacklevel=1)

    def _warn_of_packages(self, program: str) -> None:
        """Say once that a program which fails imports a package that it cannot have."""
        tree = _parsed(program) or ast.Module([], [])
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {(getattr(node, "module", None) or node.names[0].name).partition(".")[0] for node in imports}
        lacking = sorted(names - sys.stdlib_module_names)
        if lacking and not self._has_warned_of_packages:
            self._has_warned_of_packages = True
            warnings.warn(
                f"a program that fails imports {lacking[0]!r:.60}; programs can import installed packages "
                "with code:packages=true alone",
                RuntimeWarning,
                stacklevel=1,
            )

    def _asserts(self, program: str, tests: Tests) -> list[bool | str]:
        return run_asserts(
            program,
            tests.asserts,
            self.confinement,
            self.limits,
            setup=tests.setup,
            function=tests.function,
            packages=self.packages,
        )

    def _unittests(self, program: str, tests: Tests) -> list[bool]:
        return run_unittests(program, tests.unittests, self.confinement, self.limits, packages=self.packages)

    def _runs(self, program: str, tests: Tests) -> list[bool]:
        passed = []
        program += _entry(program)
        for text, expected in tests.runs:
            stdin = text.encode("utf-8", "replace")
            program_run = run(program, self.confinement, self.limits, stdin=stdin, packages=self.packages)
            passed.append(program_run.status == 0 and same_output(program_run.output, expected))
            if not passed[-1] and not self.partial:
                break
        return passed


_codes = in_forked_processes(Code.start_threads)


_FENCE = re.compile(r"([ \t>]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_FENCE_BEHIND_TEXT = re.compile(r"^(?=[ \t>]*[^\s>`~])(.*[ \t])(```+(?:python3?|py))[ \t]*$", re.MULTILINE)
_PYTHON = ("python", "py", "python3", "{python}")
_TAGS = re.compile(r"(?:\[PYTHON\]|\[BEGIN\]|<code>)(.*?)(?:\[/PYTHON\]|\[DONE\]|</code>|\Z)", re.DOTALL)


def program_of(completion: str, names: frozenset[str] = frozenset()) -> str:
    """The program in a completion: one of its blocks between fences, outside of the thought; else all of it.

    Fences are CommonMark's: three or more backticks or tildes, indented or not. One within a docstring does
    not end a block that would not be Python there. Blocks marked as Python come before others. The last one
    that defines a name of the tests is the program, so that an example of its use behind it is not. If there
    is none, it is the last block that does more than show values, as an output does. Blocks before it that
    define what it uses and lacks belong to it.

    Args:
        names: what the tests use.
    """
    text = without_end_tokens(outside_thoughts(completion)).lstrip("\n")
    text = _FENCE_BEHIND_TEXT.sub(r"\1\n\2", re.sub(r"\r\n?", "\n", text))
    blocks = _blocks(text.split("\n"))
    if not blocks:
        tagged = _TAGS.findall(text)
        return tagged[-1].strip("\n") if tagged else text
    marked = [block for language, block in blocks if language in _PYTHON]
    plain = [block for language, block in blocks if not language]
    programs = marked or plain or [block for _, block in blocks]
    programs = [program.lstrip("\ufeff") for program in programs]  # which begins a file, and no text
    trees = [_parsed(program) for program in programs]
    for wanted in (_defines, _does_something):
        for i in reversed(range(len(programs))):
            tree = trees[i]
            if tree is not None and wanted(tree, names):
                return "\n\n".join([*_helpers(programs[:i], trees[:i], programs[i]), programs[i]])
    return programs[-1]


def _helpers(programs: Sequence[str], trees: Sequence[ast.Module | None], program: str) -> list[str]:
    """The blocks that define what a later one uses and does not define."""
    helpers: list[str] = []
    used, bound = global_names(program)
    lacking = used - bound - {*dir(builtins)}
    for block, tree in zip(reversed(programs), reversed(trees), strict=True):
        if tree is not None and _defines(tree, frozenset(lacking)):
            helpers.insert(0, block)
            used, bound = global_names(block)
            lacking = (lacking | used) - bound - {*dir(builtins)}
    return helpers


def _blocks(lines: Sequence[str]) -> list[tuple[str, str]]:
    """(language, text) of every block; one that is never closed goes on to the end."""
    blocks = []
    i = 0
    while i < len(lines):
        opening = _FENCE.match(lines[i])
        if opening is None:
            i += 1
            continue
        indent, fence, info = opening.groups()
        ends = [j for j in range(i + 1, len(lines)) if _closes(lines[j], fence)]
        width = len(indent)
        texts = {}
        for j in [*ends[:20], len(lines)]:
            inner = (line[width:] if not line[:width].strip(" \t>") else line for line in lines[i + 1 : j])
            texts[j] = "\n".join(inner)
        language = (info.split() or [""])[0].lower()
        end = next(iter(texts))
        if language in _PYTHON and _parsed(texts[end]) is None:
            end = next((j for j, text in texts.items() if _parsed(text) is not None), end)
        blocks.append((language, texts[end]))
        i = end + 1
    return blocks


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip(" \t>")
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}


def _parsed(program: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defines(tree: ast.Module, names: frozenset[str]) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    defined |= {target.id for target in assigned if isinstance(target, ast.Name)}
    return bool(defined & names)


_STARTERS = (
    *("collections", "typing", "dataclasses", "functools", "heapq", "bisect", "itertools", "math", "copy"),
    *("operator", "random", "string", "re", "datetime", "json", "statistics", "sys"),
)
_NODES = {
    "ListNode": "class ListNode:\n    def __init__(self, val=0, next=None): self.val, self.next = val, next",
    "TreeNode": "class TreeNode:\n    def __init__(self, val=0, left=None, right=None):\n"
    "        self.val, self.left, self.right = val, left, right",
}


@cache
def _starter_lines() -> dict[str, str]:
    """What sites whose starter code programs complete put before one: the statement that brings each name."""
    lines: dict[str, str] = {}
    for name in reversed(_STARTERS):
        module = importlib.import_module(name)
        lines |= {
            n: f"from {name} import {n}" for n in getattr(module, "__all__", dir(module)) if n[0] != "_"
        }
    return lines | {name: f"import {name}" for name in _STARTERS if name not in ("copy", "bisect")} | _NODES


def with_imports(program: str, names: frozenset[str] = frozenset()) -> str:
    """The program behind imports of the names that starter code gives, of those it uses and does not bind.

    Args:
        names: what the tests use.
    """
    used, bound = global_names(program)
    used |= names & _NODES.keys()
    lines = [
        _starter_lines()[name] for name in sorted(used - bound - {*dir(builtins)}) if name in _starter_lines()
    ]
    tree = _parsed(program)
    if not lines or tree is None:
        return program
    first = next((i for i, node in enumerate(tree.body) if not _stays_first(node)), 0)
    place = (tree.body[first - 1].end_lineno or 0) if first else 0
    text = program.split("\n")
    return "\n".join([*text[:place], *lines, *text[place:]])


def _stays_first(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _entry(program: str) -> str:
    """A call of the function that a program of definitions alone begins in, as `solve()`; "" elsewhere."""
    tree = _parsed(program)
    if tree is None or any(isinstance(node, ast.Expr | ast.If | ast.For | ast.While) for node in tree.body):
        return ""
    functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in ("main", "solve", "solution"):
        if name in functions and len(functions[name].args) == len(functions[name].defaults):
            return f"\n\n{name}()\n"
    return ""


def _does_something(tree: ast.Module, names: frozenset[str]) -> bool:
    """Whether a block has a statement other than values and names, which is what an output looks like."""
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in tree.body)

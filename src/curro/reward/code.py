"""Programs against tests, each in a confined process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from curro.core.errors import ConfigError, RewardError
from curro.data.raw import Row
from curro.reward.reward import Score, key
from curro.reward.sandbox import Limits, ProgramNotBegun, find_confinement, run
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


def read_tests(row: Row) -> Tests | None:
    """The tests of a row: of its column `tests`, else of its answer; None where it has neither.

    Shapes, as they are or as JSON:

    * `[{"input": ..., "output": ...}, ...]`, with `"fn_name"` for values in JSON instead of texts;
    * `{"inputs": [...], "outputs": [...]}`, with `"fn_name"`: arguments and what the function returns;
    * `["assert f(1) == 2", ...]`, or one text of Python. The row's `setup` is executed before, and its
      `fn_name` is the function that is tested, which is needed only where Python has one of that name;
    * `{"unittest": "class TestCases(unittest.TestCase): ..."}`.

    Raises:
        RewardError: the tests have none of these shapes, or there are none; the message has the prompt's key.
    """
    raw_tests = row.get("tests")
    if raw_tests is None:
        raw_tests = row.get("answer")
    if raw_tests is None:
        return None
    try:
        tests = _read(_from_json(raw_tests), str(row.get("setup") or ""), str(row.get("fn_name") or ""))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RewardError(f"the tests of the prompt {key(row)} cannot be read: {error!r:.200}") from None
    if not (tests.runs or tests.asserts or tests.unittests):
        raise RewardError(f"the prompt {key(row)} has no tests")
    return tests


def _from_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return [value]


def _read(tests: Any, setup: str, tested: str) -> Tests:
    if isinstance(tests, dict) and "unittest" in tests:
        return Tests(unittests=_text(tests["unittest"]))
    if isinstance(tests, dict):
        function = tests.get("fn_name")
        pairs = list(zip(tests["inputs"], tests["outputs"], strict=True))
    elif tests and all(isinstance(test, str) for test in tests):
        return Tests(asserts=tuple(tests), setup=setup, function=tested)
    else:
        function = next((test["fn_name"] for test in tests if test.get("fn_name")), None)
        pairs = [(test["input"], test["output"]) for test in tests]
    if function:
        calls = tuple(_call(function, *pair) for pair in pairs)
        return Tests(asserts=calls, setup=_CALLS + setup, function="_function")
    return Tests(runs=tuple((_text(stdin), _text(expected)) for stdin, expected in pairs))


_CALLS = """
def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value

def _same(got, expected):
    got, expected = _plain(got), _plain(expected)
    return got == expected or (isinstance(expected, list) and [got] == expected)
"""
"""How results of functions are compared: JSON has no tuples, and some data sets wrap results in a list."""


def _call(function: str, inputs: Any, expected: Any) -> str:
    """An assert for a call: a list of arguments, or a line of JSON for each; one result, or its JSON.

    It takes the function from `_function`, so that its name is the program's whatever it is.
    """
    if not str(function).isidentifier():
        raise ValueError(f"fn_name {function!r} is no name of a function")
    arguments = inputs if isinstance(inputs, list) else [json.loads(line) for line in inputs.splitlines()]
    result = json.loads(expected) if isinstance(expected, str) and isinstance(inputs, str) else expected
    return f"assert _same(_function({function!r})(*{arguments!r}), {result!r})"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    if not isinstance(value, str):
        raise TypeError(f"an input or output is a text, not {value!r:.60}")
    return value


def same_output(output: bytes, expected: str) -> bool:
    """Whether two texts have the same words on the same lines; white space around them does not count."""
    return _lines(output.decode("utf-8", "replace")) == _lines(expected)


def _lines(text: str) -> Sequence[list[str]]:
    lines = [line.split() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_LONGEST_PROGRAM = 100_000
"""Characters; a longer program is wrong."""


class Code:
    """Right if the completion's program passes the row's tests; with `partial`, the share that it passes.

    The program is the completion's last block of code between lines of three backticks, else all of it. A run
    passes where the program ends with status 0 and its output has the expected words on the expected lines;
    an assert where it raises nothing; a test case where it passes (`curro.reward.sandbox.program_tests`).

    Source: curro's own.

    Args:
        partial: the share of tests passed, instead of all or nothing.
        exponent: the power to which that share is raised.
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
        exponent: float = 1.0,
        seconds: float = 6.0,
        memory_mib: int = 1024,
        processes: int = 16,
        sandbox: str = "auto",
        packages: bool = False,
        workers: int = 0,
    ) -> None:
        if exponent <= 0 or (exponent != 1.0 and not partial):
            raise ConfigError(f"code: exponent is above 0 and goes with partial=true, not {exponent}")
        if workers < 0:
            raise ConfigError(f"code: workers is a number of programs at a time, not {workers}")
        self.partial, self.exponent, self.packages = partial, exponent, packages
        self.limits = Limits(seconds=seconds, memory_mib=memory_mib, processes=processes)
        self.confinement = find_confinement(sandbox)
        self._workers = workers or os.cpu_count() or 1
        self._has_warned = False
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
        futures: dict[tuple[str, Tests], Future[Score]] = {}
        pending: list[Future[Score] | None] = []
        for completion, row in zip(completions, rows, strict=True):
            tests = read_tests(row)
            if tests is None:
                pending.append(None)
                continue
            job = program_of(completion), tests
            if tests.unittests and not self.confinement.has_folder:
                raise RewardError(
                    f"the tests of the prompt {key(row)} are of the module unittest, which needs a folder to "
                    "write to, and Landlock leaves none: install bubblewrap (apt install bubblewrap)"
                )
            if job not in futures:
                futures[job] = self._threads.submit(self._score, *job)
            pending.append(futures[job])
        return pending

    def _score(self, program: str, tests: Tests) -> Score:
        if len(program) > _LONGEST_PROGRAM:
            return 0.0
        try:
            if tests.asserts:
                passed = self._asserts(program, tests)
            elif tests.unittests:
                passed = self._unittests(program, tests)
            else:
                passed = self._runs(program, tests)
        except (ProgramNotBegun, OSError) as error:  # the latter where there are no more files, say
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(f"{error}; such completions are not scored", RuntimeWarning, stacklevel=1)
            return None
        share = sum(passed) / (len(tests.asserts) or len(tests.runs) or len(passed) or 1)
        return share**self.exponent if self.partial else float(share == 1.0)

    def _asserts(self, program: str, tests: Tests) -> list[bool]:
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
        for text, expected in tests.runs:
            stdin = text.encode("utf-8", "replace")
            program_run = run(program, self.confinement, self.limits, stdin=stdin, packages=self.packages)
            passed.append(program_run.status == 0 and same_output(program_run.output, expected))
            if not passed[-1] and not self.partial:
                break
        return passed


_codes = in_forked_processes(Code.start_threads)


def program_of(completion: str) -> str:
    """The last block of code between fences, without the thought; all of a text that has no fence."""
    text = completion.rpartition("</think>")[2]
    block: list[str] = []
    program: str | None = None
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if inside:
                program = "\n".join(block)
            inside, block = not inside, []
        elif inside:
            block.append(line)
    return text if program is None else program

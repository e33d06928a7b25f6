"""Programs against tests, each in a confined process of its own."""

from __future__ import annotations

import ast
import asyncio
import builtins
import os
import re
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from curro.core.errors import ConfigError, RewardError
from curro.data.raw import Row
from curro.reward.code_tests import FUNCTION, TOLERANCE, Tests, read_tests
from curro.reward.programs import entry_call, parsed, program_of, with_imports
from curro.reward.reward import Unscored, Verdict, key
from curro.reward.sandbox import Limits, ProgramNotBegun, find_confinement, run
from curro.reward.sandbox.bubblewrap import INSTALL
from curro.reward.sandbox.inside.wire import global_names
from curro.reward.sandbox.program_tests import run_asserts, run_unittests
from curro.reward.workers.forks import in_forked_processes


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


_NUMBER = re.compile(r"([\[({]*)([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([\])},;:%]*)")


def _close(got: str, wanted: str) -> bool:
    """Whether two words are close numbers, at least one of them no integer, in equal brackets and marks."""
    first, second = (_NUMBER.fullmatch(text) if len(text) < 400 else None for text in (got, wanted))
    if not first or not second or first.group(1, 3) != second.group(1, 3):
        return False
    if all(match[2].lstrip("+-").isdigit() for match in (first, second)):
        return False
    return abs(float(first[2]) - float(second[2])) <= TOLERANCE * max(1.0, abs(float(second[2])))


_LONGEST_PROGRAM = 100_000
"""Characters; a longer program is wrong."""


class Code:
    """Right if the completion's program passes the row's tests; with `partial`, the share that it passes.

    `program_of` says which block of the completion is the program. A run passes if the program ends with
    status 0 and its output has the expected words on the expected lines; an assert if it raises nothing; a
    test case if it passes (`curro.reward.sandbox.program_tests`). A completion is not scored, and the log
    says why, if a test does what cannot be done from another process, or the program's own `==` decides it.
    No completion of a row is scored whose tests cannot be read, or are passed by functions that do nothing.

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
        self._has_warned_of_packages = False
        self._sound: dict[Tests, bool] = {}
        self.start_threads()
        _codes.add(self)

    def start_threads(self) -> None:
        """Begin anew in a forked process, where the threads of its parent are not."""
        self._threads = ThreadPoolExecutor(self._workers, "curro-code")

    @property
    def note(self) -> str:
        """A sentence for the user: how programs are confined."""
        return self.confinement.sentence

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """The scores, `workers` programs at a time; None without tests."""
        return [None if future is None else future.result() for future in self._begin(completions, rows)]

    async def verify_async(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """As a call, while the event loop goes on."""
        pending = self._begin(completions, rows)
        futures = [asyncio.wrap_future(future) for future in pending if future is not None]
        scores = iter(await asyncio.gather(*futures))
        return [None if future is None else next(scores) for future in pending]

    def _begin(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Future[Verdict] | None]:
        """A future for every completion that has tests; equal programs of a prompt share one."""
        futures: dict[tuple[str, Tests, str], Future[Verdict]] = {}
        sound: dict[Tests, Future[bool]] = {}
        pending: list[Future[Verdict] | None] = []
        for completion, row in zip(completions, rows, strict=True):
            try:
                tests = self._tests(row)
            except RewardError as error:
                unread: Future[Verdict] = Future()
                unread.set_result(Unscored(str(error), is_row=True))
                pending.append(unread)
                continue
            if tests is None:
                pending.append(None)
                continue
            if tests not in sound:  # begun before the programs, which wait for it
                sound[tests] = self._threads.submit(self._are_sound, tests)
            job = program_of(completion, tests.names), tests, key(row)
            if job not in futures:
                futures[job] = self._threads.submit(self._score, *job, sound[tests])
            pending.append(futures[job])
        return pending

    def _tests(self, row: Row) -> Tests | None:
        tests = read_tests(row)
        if tests is not None and tests.unittests and not self.confinement.has_folder:
            raise RewardError(
                f"the tests of the prompt {key(row)} are of the module unittest, which needs a folder to "
                f"write to, and Landlock leaves none: install bubblewrap ({INSTALL})"
            )
        return tests

    def _score(self, program: str, tests: Tests, prompt: str, sound: Future[bool]) -> Verdict:
        try:
            if not sound.result():
                return Unscored(
                    f"the tests of the prompt {prompt} test nothing, for functions that do nothing pass",
                    is_row=True,
                )
            if len(program) > _LONGEST_PROGRAM:
                return 0.0
            passed = self._passed(with_imports(program, tests.names), tests)
        except (ProgramNotBegun, OSError) as error:  # the latter where there are no more files, say
            return Unscored(str(error))
        reason = next((verdict for verdict in passed if isinstance(verdict, str)), None)
        if reason is not None:
            return Unscored(reason)
        if not all(passed) and not self.packages:
            self._warn_of_packages(program)
        share = sum(map(bool, passed)) / (len(tests.asserts) or len(tests.runs) or len(passed) or 1)
        return share if self.partial else float(share == 1.0)

    def _passed(self, program: str, tests: Tests) -> Sequence[bool | str]:
        if tests.runs:
            return self._runs(program, tests)
        how: dict[str, Any] = {
            "confinement": self.confinement,
            "limits": self.limits,
            "packages": self.packages,
        }
        if tests.unittests:
            return run_unittests(program, tests.unittests, **how)
        return run_asserts(program, tests.asserts, setup=tests.setup, function=tests.function, **how)

    def _are_sound(self, tests: Tests) -> bool:
        """Whether programs fail that do nothing; others pass tests that call nothing or look at no result."""
        if tests.runs or tests.function == FUNCTION:
            return True
        if tests not in self._sound:
            used, bound = global_names("\n".join([tests.setup, *tests.asserts]))
            names = sorted((used | {tests.function}) - bound - {*dir(builtins), ""})
            program = "".join(f"def {name}(*a, **k): pass\n" for name in names)
            self._sound[tests] = not all(verdict is True for verdict in self._passed(program, tests))
        return self._sound[tests]

    def _warn_of_packages(self, program: str) -> None:
        """Say once that a program which fails imports a package that it cannot have."""
        tree = parsed(program) or ast.Module([], [])
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

    def _runs(self, program: str, tests: Tests) -> list[bool]:
        passed = []
        program += entry_call(program)
        for text, expected in tests.runs:
            stdin = text.encode("utf-8", "replace")
            program_run = run(program, self.confinement, self.limits, stdin=stdin, packages=self.packages)
            passed.append(program_run.status == 0 and same_output(program_run.output, expected))
            if not passed[-1] and not self.partial:
                break
        return passed


_codes = in_forked_processes(Code.start_threads)

"""A program against tests: asserts that call it from another process, or test cases beside it in its own."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curro.reward.sandbox.confinement import Confinement
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.run import Started, end, finish, memory_file, pipe, start

_WIRE, _PROGRAM, _TESTS, _UNITTESTS = (
    (Path(__file__).parent / "inside" / f"{name}.py").read_text()
    for name in ("wire", "program", "tests", "unittests")
)
_MODULES = ("collections", "copy", "itertools", "math", "re")
"""That tests may use without importing them."""

_CLOSED = (
    (r"\bredirect_std|\bcapsys\b|\bsys\.std(?:out|err)\b", r"print|write"),
    (r"\bmonkeypatch\b|\bpickle\b|\bpatch(?:\.\w+)?\(|\bbuiltins\.\w+ *=|\bsys\.stdin\b", ""),
    (r"\brandom\.seed\(", "random"),
    (r"\bwarns\(|\bcatch_warnings\b|\bassertWarns|\bassertLogs\b", r"warn|logg"),
    (r"\bopen\(|\bos\.|\bpathlib\b|\btempfile\b", r"\bopen\(|\bos\b|pathlib"),
)
"""What tests say that change or read something of their own process, and what programs say that need it."""

_IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_MOST_TESTS = 10_000


def run_asserts(
    program: str,
    tests: Sequence[str],
    confinement: Confinement,
    limits: Limits,
    *,
    setup: str = "",
    function: str = "",
    packages: bool = False,
) -> list[bool | str]:
    """Which of the tests pass, in two confined processes: the program's cannot read the tests.

    The program runs as a module. Tests see stand-ins for its functions and classes: plain data goes and comes
    by value, as built-in types, so that no object of the program's can claim to equal what is expected; other
    objects can be called, iterated, indexed, combined with each other, asked for attributes and given back.
    Containers that the program changes in place change for the tests too, and it can call functions of the
    tests that it is given. Names of `setup` and of Python's own functions and modules are the program's only
    if they are what is tested.

    Returns:
        whether each test passes, or why it says nothing of the program: it does what stand-ins cannot, or
        the program's own `==`, `<`, `in` or arithmetic with a plain value would decide it.

    Args:
        tests: each passes if it raises nothing; they share their names and `limits.seconds`.
        setup: executed before the tests, in their process.
        function: the name of the function that is tested, where it is known; else it is read from the tests.
            `_function(NAME)` is the program's function of that name in tests too.
        packages: whether the program can import the packages of this environment; the tests always can.
    """
    shared: dict[str, Any] = {"confinement": confinement, "limits": limits}
    imported = set(_IMPORTED.findall("\n".join([setup, *tests])))
    processes: list[Started] = []
    with contextlib.ExitStack() as pipes, memory_file() as nothing, memory_file() as verdicts:
        request_reader, request_writer = pipe(pipes)
        reply_reader, reply_writer = pipe(pipes)
        program_names: dict[str, Any] = {
            "SOURCE": program,
            "REQUESTS": request_reader,
            "REPLIES": reply_writer,
        }
        test_names: dict[str, Any] = {
            "SETUP": setup,
            "TESTS": list(tests),
            "MODULES": _MODULES,
            "FUNCTION": function,
            "CLOSED": "|".join(text for text, uses in _CLOSED if re.search(uses, program)),
            "REQUESTS": request_writer,
            "REPLIES": reply_reader,
            "VERDICTS": verdicts,
        }
        try:
            for code, names, files in (
                (_PROGRAM, program_names, (request_reader, reply_writer)),
                (_TESTS, test_names, (request_writer, reply_reader, verdicts)),
            ):
                started = start(
                    f"{_WIRE}\n{code}",
                    stdin=nothing,
                    stdout=nothing,
                    names=names,
                    files=files,
                    hidden=code is _TESTS,
                    packages=packages or (code is _TESTS and not imported <= sys.stdlib_module_names),
                    **shared,
                )
                processes.append(started)
        finally:
            pipes.close()  # or neither process would notice the other's end
            if len(processes) < 2:
                end(processes)
        finish(processes, limits.seconds)
        os.lseek(verdicts, 0, os.SEEK_SET)
        lines = os.read(verdicts, 200 * len(tests)).decode().split("\n")[: len(tests)]
    verdicts_by_line: dict[str, bool] = {"1": True, "0": False, "": False}
    return [verdicts_by_line.get(line, line) for line in lines] + [False] * (len(tests) - len(lines))


def run_unittests(
    program: str,
    tests: str,
    confinement: Confinement,
    limits: Limits,
    *,
    packages: bool = False,
) -> list[bool]:
    """Which of the test cases of the module `unittest` pass; empty if none ran, or they took too long.

    Program and tests are one module in one confined process, as BigCodeBench's authors execute them, in an
    empty folder. So a program that is written to cheat can pass: measure with such tests, and do not train on
    them.

    Args:
        tests: source text with a class `TestCases`.
        packages: whether the packages of this environment can be imported.
    """
    with memory_file() as nothing, memory_file() as verdicts:
        started = start(
            _UNITTESTS,
            confinement,
            limits,
            stdin=nothing,
            stdout=nothing,
            packages=packages,
            names={"SOURCE": program, "TESTS": tests, "VERDICTS": verdicts},
            files=(verdicts,),
        )
        finish([started], limits.seconds)
        os.lseek(verdicts, 0, os.SEEK_SET)
        return [digit == ord("1") for digit in os.read(verdicts, _MOST_TESTS)]

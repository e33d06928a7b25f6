"""A program and test cases of the module `unittest`, in one confined process."""

from __future__ import annotations

import os
import time
from pathlib import Path

from curro.reward.sandbox.confinement import Confinement
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.run import finish, memory_file, start

_INSIDE = Path(__file__).with_name("inside_unittests.py").read_text()
_MOST_TESTS = 10_000


def run_unittests(
    program: str,
    tests: str,
    confinement: Confinement,
    limits: Limits,
    *,
    slot: int = 0,
    packages: bool = False,
) -> list[bool]:
    """Which of the tests pass; empty where none of them ran, or where they did not end in time.

    Program and tests are one module, as BigCodeBench's authors execute them, in an empty folder. So a program
    that is written to cheat can pass: measure with such tests, and do not train on them.

    Args:
        tests: source text with a class `TestCases`.
        slot: programs that run at the same time have different ones.
        packages: whether the packages of this environment can be imported.
    """
    with memory_file() as nothing, memory_file() as verdicts:
        names = {"SOURCE": program, "TESTS": tests, "VERDICTS": verdicts}
        one = start(
            _INSIDE,
            confinement,
            limits,
            stdin=nothing,
            stdout=nothing,
            slot=slot,
            packages=packages,
            names=names,
            files=(verdicts,),
        )
        finish([one], time.monotonic() + limits.seconds)
        os.lseek(verdicts, 0, os.SEEK_SET)
        return [digit == ord("1") for digit in os.read(verdicts, _MOST_TESTS)]

"""A program against tests that call it, in two confined processes: the program's cannot read the tests."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curro.reward.sandbox.confinement import Confinement
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.run import Started, finish, memory_file, start

_WIRE, _PROGRAM, _TESTS = (
    Path(__file__).with_name(f"inside_{name}.py").read_text() for name in ("wire", "program", "tests")
)
_MODULES = ("collections", "copy", "itertools", "math", "re")
"""That tests may use without importing them."""


def run_asserts(
    program: str,
    tests: Sequence[str],
    confinement: Confinement,
    limits: Limits,
    *,
    setup: str = "",
    slot: int = 0,
    packages: bool = False,
) -> list[bool]:
    """Which of the tests pass.

    The program runs as a module. Tests see stand-ins for its functions and classes: plain data goes and comes
    by value, as built-in types, so that no object of the program's can claim to equal what is expected; other
    objects can be called, asked for public attributes and given back. The names of Python's own modules, of
    `math` and of `setup` are never the program's.

    Args:
        tests: each passes where it raises nothing; they share their names and `limits.seconds`.
        setup: executed before the tests, in their process.
        slot: programs that run at the same time have different ones; two are used, from twice this one on.
    """
    ask, asked = os.pipe()
    answer, answered = os.pipe()
    theirs = {"SOURCE": program, "REQUESTS": ask, "REPLIES": answered}
    ours = {"SETUP": setup, "TESTS": list(tests), "MODULES": _MODULES, "REQUESTS": asked, "REPLIES": answer}
    places: dict[str, Any] = {"confinement": confinement, "limits": limits, "packages": packages}
    processes: list[Started] = []
    with memory_file() as nothing, memory_file() as verdicts:
        deadline = time.monotonic() + limits.seconds
        try:
            for code, slots, names, files in (
                (_PROGRAM, 2 * slot, theirs, (ask, answered)),
                (_TESTS, 2 * slot + 1, ours | {"VERDICTS": verdicts}, (asked, answer, verdicts)),
            ):
                one = start(
                    f"{_WIRE}\n{code}",
                    stdin=nothing,
                    stdout=nothing,
                    slot=slots,
                    names=names,
                    files=files,
                    **places,
                )
                processes.append(one)
        finally:
            for number in (ask, asked, answer, answered):
                os.close(number)
            if processes:
                finish(processes, deadline if len(processes) == 2 else 0.0)
        os.lseek(verdicts, 0, os.SEEK_SET)
        told = os.read(verdicts, 2 * len(tests)).split()
    return [i < len(told) and told[i] == b"1" for i in range(len(tests))]

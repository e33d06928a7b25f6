"""Programs against tests, each in a confined process of its own."""

from __future__ import annotations

import asyncio
import os
import queue
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from curro.errors import ConfigError, RewardError
from curro.reward.code_tests import Tests, read_tests, same_output
from curro.reward.reward import Row, Score, key
from curro.reward.sandbox import Limits, find_confinement, run
from curro.reward.sandbox.asserts import run_asserts
from curro.reward.sandbox.unittests import run_unittests

_LONGEST_PROGRAM = 100_000
"""Characters; a longer program is wrong."""


class Code:
    """The tests that a completion's program passes; without `partial`, 1.0 for all of them and else 0.0.

    The program is the completion's last block of code between lines of three backticks, else all of it. A run
    passes where the program ends with status 0 and its output has the expected words on the expected lines;
    an assert where it raises nothing; a test case where it passes (`curro.reward.sandbox.unittests`).

    Args:
        partial: the share of tests passed, instead of all or nothing.
        exponent: of that share.
        seconds: that a run may take; asserts or test cases of a program share them.
        memory_mib: address space of each process.
        processes: processes and threads that a program may have at a time.
        sandbox: "auto", "required" (nothing that leaves files or network open) or "none"
            (`curro.reward.sandbox.find_confinement`).
        packages: whether programs can import this environment's packages, and read their files.
        workers: programs at a time; by default the number of processor cores.

    Raises:
        ConfigError: a value out of range, or a sandbox that this machine has not.
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
        workers = workers or os.cpu_count() or 1
        self._slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(workers):
            self._slots.put(slot)
        self._threads = ThreadPoolExecutor(workers, "curro-code")

    @property
    def note(self) -> str:
        """For people: how programs are confined."""
        return self.confinement.sentence

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The scores, `workers` programs at a time; None where the row has no tests.

        Raises:
            RewardError: a row's tests cannot be read.
        """
        return [None if one is None else one.result() for one in self._begin(completions, rows)]

    async def verify_async(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """As a call, while the event loop goes on."""
        begun = self._begin(completions, rows)
        waiting = [asyncio.wrap_future(one) for one in begun if one is not None]
        scores = iter(await asyncio.gather(*waiting))
        return [None if one is None else next(scores) for one in begun]

    def _begin(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Future[float] | None]:
        """A future for every completion that has tests; equal programs of a prompt share one."""
        known: dict[tuple[str, Tests], Future[float]] = {}
        begun: list[Future[float] | None] = []
        for completion, row in zip(completions, rows, strict=True):
            tests = read_tests(row)
            if tests is None:
                begun.append(None)
                continue
            job = program_of(completion), tests
            if tests.unittests and not self.confinement.has_folder:
                raise RewardError(
                    f"the tests of the prompt {key(row)} are of the module unittest, which needs a folder to "
                    "write to, and Landlock leaves none: install bubblewrap (apt install bubblewrap)"
                )
            if job not in known:
                known[job] = self._threads.submit(self._score, *job)
            begun.append(known[job])
        return begun

    def _score(self, program: str, tests: Tests) -> float:
        if len(program) > _LONGEST_PROGRAM:
            return 0.0
        slot = self._slots.get()
        try:
            if tests.asserts:
                passed = self._asserts(program, tests, slot)
            elif tests.unittests:
                passed = self._unittests(program, tests, slot)
            else:
                passed = self._runs(program, tests, slot)
        finally:
            self._slots.put(slot)
        share = sum(passed) / (len(tests.asserts) or len(tests.runs) or len(passed) or 1)
        return share**self.exponent if self.partial else float(share == 1.0)

    def _asserts(self, program: str, tests: Tests, slot: int) -> list[bool]:
        return run_asserts(
            program,
            tests.asserts,
            self.confinement,
            self.limits,
            setup=tests.setup,
            slot=slot,
            packages=self.packages,
        )

    def _unittests(self, program: str, tests: Tests, slot: int) -> list[bool]:
        return run_unittests(
            program, tests.unittests, self.confinement, self.limits, slot=2 * slot, packages=self.packages
        )

    def _runs(self, program: str, tests: Tests, slot: int) -> list[bool]:
        passed = []
        for given, expected in tests.runs:
            stdin = given.encode("utf-8", "replace")
            done = run(
                program, self.confinement, self.limits, stdin=stdin, slot=2 * slot, packages=self.packages
            )
            passed.append(done.status == 0 and same_output(done.output, expected))
            if not passed[-1] and not self.partial:
                break
        return passed


def program_of(completion: str) -> str:
    """The last block of code between fences, without the thought; all of a text that has no fence."""
    text = completion.rpartition("</think>")[2]
    block: list[str] = []
    found: str | None = None
    inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if inside:
                found = "\n".join(block)
            inside, block = not inside, []
        elif inside:
            block.append(line)
    return text if found is None else found

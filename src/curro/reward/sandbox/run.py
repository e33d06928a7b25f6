"""One program in a process of its own, from start to the end of every process that it started."""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curro.reward.sandbox.confinement import Confinement
from curro.reward.sandbox.limits import Limits

_INSIDE = Path(__file__).with_name("inside.py").read_text()


END_SECONDS = 10.0
"""That the kernel may take to end what was killed."""


@dataclass(frozen=True)
class Started:
    """A process, and a pipe that no process of its own holds open any more once all of them have ended.

    Attributes:
        ends_others: the process is no program but ends one, with all that it has started, on SIGTERM.
    """

    process: subprocess.Popen[bytes]
    ended: int
    ends_others: bool

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.ends_others:
                self.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(END_SECONDS)
                    return
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes:
        status: its exit status, negative or above 128 for a signal; None where its time was over.
        output: what it wrote to its standard output, cut at the limit.
    """

    status: int | None
    output: bytes


def run(
    code: str,
    confinement: Confinement,
    limits: Limits,
    *,
    stdin: bytes = b"",
    slot: int = 0,
    packages: bool = False,
) -> Outcome:
    """Run a Python program as `__main__` and wait for its end.

    Its standard input and output are files in memory, so that whatever it does with them stops nobody; its
    standard error is thrown away.

    Args:
        slot: programs that run at the same time have different ones.
        packages: whether the packages of this environment can be imported; they may hold data sets.
    """
    with memory_file(stdin) as given, memory_file() as written:
        one = start(code, confinement, limits, stdin=given, stdout=written, slot=slot, packages=packages)
        status = finish([one], time.monotonic() + limits.seconds)
        os.lseek(written, 0, os.SEEK_SET)
        return Outcome(status, os.read(written, limits.output_kib * 1024))


def start(
    code: str,
    confinement: Confinement,
    limits: Limits,
    *,
    stdin: int,
    stdout: int,
    slot: int,
    packages: bool,
    names: dict[str, Any] | None = None,
    files: Sequence[int] = (),
) -> Started:
    """Start a program that has the open `files` and the global `names` besides; to be ended by `finish`."""
    job = {
        "rlimits": limits.rlimits(),
        "uid": confinement.uid(slot),
        "path": [entry for entry in sys.path if packages and "site-packages" in entry],
        "confine": confinement.inside(packages),
        "names": names or {},
        "code": code,
    }
    ended, held = os.pipe()
    with memory_file(marshal.dumps(job)) as told:
        interpreter = os.path.realpath(sys.executable)
        command = [*confinement.command(limits, packages), interpreter, "-I", "-S", "-c", _INSIDE, str(told)]
        try:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                pass_fds=(told, held, *files),
                start_new_session=True,
                env=confinement.environment,
                cwd="/",
            )
        except BaseException:
            os.close(ended)
            raise
        finally:
            os.close(held)
        return Started(process, ended, ends_others=job["confine"] is not None)


def finish(started: Sequence[Started], deadline: float) -> int | None:
    """Wait for the last of the processes, then end all of them with all that they have started.

    Returns:
        the last one's exit status; None where the deadline came first.
    """
    in_time = False
    try:
        number = os.pidfd_open(started[-1].process.pid)
        try:
            in_time = _is_readable(number, deadline)
        finally:
            os.close(number)
    finally:
        for one in started:  # none is reaped before, so that its number is still its own
            one.end()
        over = time.monotonic() + END_SECONDS
        for one in started:  # the next program of this user must not find its places taken
            _is_readable(one.ended, over)
            os.close(one.ended)
    return started[-1].process.returncode if in_time else None


def _is_readable(number: int, deadline: float) -> bool:
    """Whether an open file can be read, or has come to its end, before the deadline."""
    waiting = select.poll()
    waiting.register(number, select.POLLIN)
    return bool(waiting.poll(max(0.0, deadline - time.monotonic()) * 1000))


@contextlib.contextmanager
def memory_file(content: bytes = b"") -> Iterator[int]:
    """The number of an open file that lies in memory and has no name."""
    number = os.memfd_create("curro")
    try:
        os.write(number, content)
        os.lseek(number, 0, os.SEEK_SET)
        yield number
    finally:
        os.close(number)

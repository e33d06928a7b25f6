"""One program in a process of its own, and the confinement that this machine has for it."""

from __future__ import annotations

import contextlib
import marshal
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from curro.core.errors import ConfigError
from curro.reward.sandbox import bubblewrap, landlock
from curro.reward.sandbox.confinement import (
    BUBBLEWRAP,
    ENVIRONMENT,
    LANDLOCK,
    LIMITS,
    SANDBOX,
    Confinement,
    LentUser,
)
from curro.reward.sandbox.limits import MIB, Limits
from curro.reward.sandbox.system_calls import MACHINES

_INSIDE = (Path(__file__).parent / "inside" / "begin.py").read_text()


END_SECONDS = 10.0
"""Seconds to wait for killed processes to exit."""

START_SECONDS = 120.0
"""Seconds in which a program must begin. On a busy machine its confinement takes twenty times as long."""

MOST_WAITING = 10
"""How many times its seconds a program is given on a busy machine, if it has not used them of a processor."""

MEMORY_SECONDS = 0.1
"""Seconds between two looks at the memory that a program holds."""

_never_given_back: list[LentUser] = []
"""Users of programs whose processes did not end: an object that nobody keeps would give its user back."""

ENTRY_BYTES = 2048
"""Memory that the kernel needs for an empty file, rounded up: 1.4 KB were measured."""

LOCK_BYTES, CONNECTION_BYTES = 512, 4096
"""Memory that the kernel needs for a lock of a file, and for a connection's end, rounded up."""

MOST_LISTED = 1 << 16
"""Characters that the kernel tells of an open file; more are a thousand locks and more."""

SOCKET_BYTES = 1 << 18
"""Memory that a socket's queue can hold, rounded up: 218 KB were measured."""


@dataclass(frozen=True)
class Started:
    """A process, and a pipe that no process of its own holds open any more once all of them have ended.

    Attributes:
        user: whom the process becomes.
        begun: a pipe into which a byte is written where the program begins.
        limits: memory is of all that it has started, together, and of its files' entries.
        has_folder: it has folders in memory of its own, /tmp and /dev/shm, and a network of its own.
    """

    process: subprocess.Popen[bytes]
    user: LentUser
    begun: int
    ended: int
    limits: Limits
    has_folder: bool

    def end(self) -> None:
        """End it with all that it has started, and wait until none of its processes counts any more.

        Of bubblewrap the first process inside is killed: it ends when all others have been counted off, which
        takes a second if they leave very many files, and then bubblewrap ends. If bubblewrap itself were
        killed, nobody could be asked whether they have.
        """
        with contextlib.suppress(ProcessLookupError):
            inside = _children(self.process.pid)
            for child in inside:
                os.kill(child, signal.SIGKILL)
            if inside:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(END_SECONDS)
                    return
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class ProgramNotBegun(Exception):
    """A program of which nothing can be said, because its confinement did not come to its beginning."""


@dataclass(frozen=True)
class ProgramRun:
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
    packages: bool = False,
) -> ProgramRun:
    """Run a Python program as `__main__` and wait for its end.

    Its standard input and output are files in memory, so that whatever it does with them stops no caller; its
    standard error is thrown away.

    Args:
        packages: whether the packages of this environment can be imported; they may hold data sets.

    Raises:
        ProgramNotBegun: as `finish`.
    """
    with memory_file(stdin) as stdin_file, memory_file() as stdout_file:
        program = start(code, confinement, limits, stdin=stdin_file, stdout=stdout_file, packages=packages)
        status = finish([program], limits.seconds)
        os.lseek(stdout_file, 0, os.SEEK_SET)
        return ProgramRun(status, os.read(stdout_file, limits.output_kib * 1024))


def start(
    code: str,
    confinement: Confinement,
    limits: Limits,
    *,
    stdin: int,
    stdout: int,
    packages: bool,
    names: dict[str, Any] | None = None,
    files: Sequence[int] = (),
    hidden: bool = False,
) -> Started:
    """Start a program that has the open `files` and the global `names` besides; to be ended by `finish`.

    Args:
        hidden: what runs are the tests, which a program of the same user must not read.

    Raises:
        ProgramNotBegun: there is no place for another process, file or user.
    """
    with contextlib.ExitStack() as stack:
        try:
            user = LentUser(START_SECONDS)
            stack.callback(user.give_back)
            begun, begin = pipe(stack)
            ended, held = pipe(stack)
            job = {
                "begin": begin,
                "rlimits": limits.rlimits(count_by_user=confinement.counts_by_user),
                "uid": user.number,
                "path": [entry for entry in sys.path if packages and "site-packages" in entry],
                "confine": confinement.inside(packages, hidden),
                "names": names or {},
                "code": code,
            }
            with (
                memory_file(marshal.dumps(job)) as job_file,
                memory_file(confinement.filter()) as filter_file,
            ):
                interpreter = [os.path.realpath(sys.executable), "-I", "-S", "-c", _INSIDE, str(job_file)]
                process = subprocess.Popen(
                    [*confinement.command(limits, packages, filter_file), *interpreter],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(job_file, filter_file, begin, held, *files),
                    start_new_session=True,
                    env=ENVIRONMENT,
                    cwd="/",
                )
        except OSError as error:
            raise ProgramNotBegun(f"a program could not be started ({error})") from error
        stack.pop_all()
    for number in (begin, held):
        os.close(number)
    return Started(process, user, begun, ended, limits, has_folder=job["confine"] is None)


def pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Both ends of a pipe, which the stack closes."""
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    return reader, writer


def finish(started: Sequence[Started], seconds: float) -> int | None:
    """Wait for the last of the processes, then end all of them with all that they have started.

    Args:
        seconds: that it may take from where all programs have begun, without those in which it waited for a
            processor, but `MOST_WAITING` times as many at most.

    Returns:
        the last one's exit status; None where its time was over, or one of them held too much memory.

    Raises:
        ProgramNotBegun: a program did not come to its beginning.
    """
    in_time = False
    try:
        number = os.pidfd_open(started[-1].process.pid)
        try:
            is_going_on = _have_begun(started)
            deadline = (begun := time.monotonic()) + seconds
            waited = _waited(started, seconds)
            while is_going_on:
                now = time.monotonic()
                in_time = _is_readable(number, min(deadline, now + MEMORY_SECONDS))
                # after the look, or one that comes late would not see that the program has ended long ago
                if not in_time and now >= deadline:
                    waiting = _waited(started, seconds) - waited
                    deadline = begun + min(seconds + waiting, MOST_WAITING * seconds)
                is_going_on = not in_time and now < deadline and not any(map(_holds_too_much, started))
        finally:
            os.close(number)
    finally:
        end(started)
    return started[-1].process.returncode if in_time else None


def end(started: Sequence[Started]) -> None:
    """End all of the processes with all that they have started."""
    for program in started:  # none is reaped before, so that its number is still its own
        program.end()
    over = time.monotonic() + END_SECONDS
    for program in started:  # the next program of this user must not find its places taken
        if _is_readable(program.ended, over):
            program.user.give_back()
        else:
            _never_given_back.append(program.user)
        os.close(program.begun)
        os.close(program.ended)


def _have_begun(started: Sequence[Started]) -> bool:
    """Wait until all programs have begun; False where one that has holds too much memory meanwhile.

    Until then nothing runs that a model wrote, so that neither the time nor a failure is a program's.
    """
    over = time.monotonic() + START_SECONDS
    for i, program in enumerate(started):
        while not _is_readable(program.begun, min(over, time.monotonic() + MEMORY_SECONDS)):
            if time.monotonic() >= over:
                raise ProgramNotBegun(f"a program had not begun after {START_SECONDS:g} s")
            if any(map(_holds_too_much, started[:i])):
                return False
        if not os.read(program.begun, 1):
            raise ProgramNotBegun("the process of a program ended before it began")
    return True


def _waited(started: Sequence[Started], seconds: float) -> float:
    """Seconds in which programs waited for a processor, each program's by its thread that waited longest.

    0 where together they have used that many `seconds` of processors: then they waited for each other.
    """
    used = waited = 0
    for program in started:
        longest = 0
        for process in _with_descendants(program.process.pid):
            for thread in _threads(process):
                with contextlib.suppress(OSError, ValueError):  # it has ended, or the kernel does not tell
                    times = Path(f"{thread}/schedstat").read_text().split()
                    used += int(times[0])
                    longest = max(longest, int(times[1]))
        waited += longest
    return 0.0 if used >= seconds * 1e9 else waited / 1e9


def _holds_too_much(program: Started) -> bool:
    """Whether a program holds more memory or threads than it may; what processes share counts once."""
    numbers = _with_descendants(program.process.pid)
    if not program.has_folder and len(_threads(program.process.pid)) > program.limits.processes:
        return True
    memory = program.limits.memory_mib * MIB
    own = _open_files(numbers)
    own += _entries(numbers) * ENTRY_BYTES + _queued(numbers) if program.has_folder else 0
    if own + sum(_resident(number) for number in numbers) <= memory:  # counts shared pages often
        return False
    return own + sum(_share(number) for number in numbers) > memory


def _entries(processes: Sequence[int]) -> int:
    """The files and folders in the program's own folders: their number is limited by nothing else.

    Each process is asked, because one that has ended sees no folder, and bubblewrap's first one sees the
    machine's.
    """
    machines = {os.stat(folder).st_dev for folder in ("/tmp", "/dev/shm") if os.path.exists(folder)}
    entries: dict[int, int] = {}  # by file system
    for thread in (thread for process in processes for thread in _threads(process)):
        for folder in ("tmp", "dev/shm"):
            with contextlib.suppress(OSError):
                path = f"{thread}/root/{folder}"
                device = os.stat(path).st_dev
                if device not in machines:
                    usage = os.statvfs(path)
                    entries[device] = usage.f_files - usage.f_ffree
    return sum(entries.values())


def _open_files(processes: Sequence[int]) -> int:
    """Bytes of the kernel's for open sockets, which may be pairs of the program's own, and for locks."""
    found, locks = set(), 0
    for folder in (f"{thread}/fd" for process in processes for thread in _threads(process)[:1]):
        with contextlib.suppress(OSError):
            for number in os.listdir(folder):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"{folder}/{number}"))
                    with open(f"{folder}info/{number}") as file:
                        told = file.read(MOST_LISTED)
                    locks += told.count("\nlock:") if len(told) < MOST_LISTED else 1 << 40
    return sum(target.startswith("socket:") for target in found) * SOCKET_BYTES + locks * LOCK_BYTES


def _queued(processes: Sequence[int]) -> int:
    """Bytes of the connections of the program's own network, whose both ends are its own.

    As with its files, some process of the program is alive and sees them.
    """
    machines = os.readlink("/proc/self/ns/net")
    for thread in (thread for process in processes for thread in _threads(process)):
        with contextlib.suppress(OSError):
            if os.readlink(f"{thread}/ns/net") != machines:
                lines = [
                    line
                    for name in ("tcp", "tcp6", "udp", "udp6")
                    for line in Path(f"{thread}/net/{name}").read_text().splitlines()[1:]
                ]
                waiting = (int(queue, 16) for line in lines for queue in line.split()[4].split(":"))
                return sum(waiting) + len(lines) * CONNECTION_BYTES
    return 0


def _with_descendants(process: int) -> list[int]:
    numbers = [process]
    for child in _children(process):
        numbers += _with_descendants(child)
    return numbers


def _children(process: int) -> list[int]:
    """Empty for a process that has ended."""
    numbers: list[int] = []
    with contextlib.suppress(OSError):
        for thread in _threads(process):
            numbers += map(int, Path(f"{thread}/children").read_text().split())
    return numbers


def _threads(process: int) -> list[str]:
    """The folders in /proc of a process's threads; empty for one that is gone.

    Once the first thread has ended, the process's own folder says nothing of what the others hold.
    """
    try:
        return [f"/proc/{process}/task/{thread}" for thread in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def _resident(process: int) -> int:
    """Bytes in memory or swapped out, and bytes of the tables that say where each page is."""
    return _sum_of(process, "status", ("VmRSS:", "VmSwap:", "VmPTE:"))


def _share(process: int) -> int:
    """Likewise, of what others have too its part; all of it where the kernel does not tell."""
    shared = _sum_of(process, "smaps_rollup", ("Pss:", "SwapPss:"))
    return shared + _sum_of(process, "status", ("VmPTE:",)) if shared else _resident(process)


def _sum_of(process: int, file: str, names: tuple[str, ...]) -> int:
    """The sum of these lines, in bytes; 0 where the process has ended, or the kernel does not tell.

    Its threads have the same memory, so that the first one that has not ended tells.
    """
    for thread in _threads(process):
        with contextlib.suppress(OSError):
            lines = Path(f"{thread}/{file}").read_text().splitlines()
            if counted := sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names)):
                return counted
    return 0


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


_WITHOUT_UID = (
    "running as root, a program's number of processes cannot be limited without bubblewrap or Landlock "
    f"({{why}}): install bubblewrap ({bubblewrap.INSTALL}), or train as another user"
)
_TRIAL = """
import socket
def is_closed(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
    return False
print(is_closed(open, {file!r}), is_closed(lambda: socket.create_connection(("127.0.0.1", {port}), 5)))
"""


@cache
def find_confinement(sandbox: str = "auto") -> Confinement:
    """The confinement that this machine has.

    Args:
        sandbox: "auto"; "required", which takes nothing that leaves files or network open; or "none".

    Raises:
        ConfigError: a confinement is required and none works here (the message says why), or without one
            root's programs could not be limited.
    """
    if sandbox not in SANDBOX:
        raise ConfigError(f"sandbox is {', '.join(SANDBOX)}, not {sandbox!r}")
    if platform.machine() not in MACHINES:
        raise ConfigError(f"programs run on {' and '.join(MACHINES)} alone, whose system calls are known")
    why = "they were not asked for"
    if sandbox != "none":
        no_bubblewrap = bubblewrap.why_not()
        if not no_bubblewrap:
            return BUBBLEWRAP
        no_landlock = landlock.why_not() or _trial(LANDLOCK)
        if not no_landlock:
            return LANDLOCK
        why = f"bubblewrap: {no_bubblewrap}; Landlock: {no_landlock}"
    if sandbox == "required":
        raise ConfigError(f"sandbox=required: neither bubblewrap nor Landlock works here: {why}")
    if os.getuid() == 0:
        raise ConfigError(_WITHOUT_UID.format(why=why))
    if sandbox == "auto":
        warnings.warn(f"neither bubblewrap nor Landlock works here ({why}): {LIMITS.sentence}", stacklevel=2)
    return LIMITS


def _trial(confinement: Confinement) -> str:
    """What is open to a program in this confinement that should not be; "" if nothing is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        trial = _TRIAL.format(file=__file__, port=server.getsockname()[1])
        try:
            done = run(trial, confinement, Limits(seconds=30.0))
        except (OSError, ProgramNotBegun) as error:
            return str(error)
    if done.output == b"True True\n":
        return ""
    if done.status:
        return f"a trial ended with status {done.status}"
    return f"a trial could open a file or a connection: {done.output!r:.80}"

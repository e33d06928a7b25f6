"""One pool of worker processes, for every function that may hang, crash, leak or eat the memory.

math-verify's and reasoning-gym's checks and a user's reward run in it. Each worker is a process of its own
group with limits on time and memory. A call that exhausts a limit, or crashes its process, fails alone: its
worker is started again, and the others go on. POSIX only.

Pools of libraries (pebble, concurrent.futures) unpickle what their workers send. Here a worker has read text
that a model wrote, so its results come back as JSON. Those pools limit neither processor time nor memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from typing import Any

from curro.reward.workers import child
from curro.reward.workers.forks import in_forked_processes

_FROM_OUTSIDE = (signal.SIGKILL.name, signal.SIGALRM.name)
"""Signals that end a process from outside: somebody killed it, or its limit on the clock is long over."""


@dataclass(frozen=True)
class WorkerLimits:
    """What the workers of a pool may take.

    Attributes:
        workers: processes that work at the same time.
        seconds: on the clock, for one call. The wait for a worker and its start do not count.
        gigabytes: of address space, for one process (2^30 bytes each).
        cpu_seconds: of processor time, for one call; None for no limit.
    """

    workers: int = 1
    seconds: float = 60.0
    gigabytes: float = 8.0
    cpu_seconds: float | None = None


class WorkerLost(Exception):
    """A call has no result because its process exhausted a limit or ended; the text says why.

    Args:
        from_outside: whether the clock's limit was reached, which a busy machine reaches too, or something
            else killed the process, as the kernel does when memory runs out.
    """

    def __init__(self, reason: str, *, from_outside: bool = False) -> None:
        super().__init__(reason)
        self.from_outside = from_outside


class CallFailed(Exception):
    """The function raised an error; the text is its type and message.

    Args:
        classes: the full names of the error's type and of its bases.
        message: the error's own text.
        location: file, line and function in the user's own code; "" where unknown.
    """

    def __init__(self, raised: str, classes: Sequence[str], message: str, location: str) -> None:
        super().__init__(raised)
        self.classes, self.message, self.location = classes, message, location

    def is_a(self, kind: type) -> bool:
        """Whether the error was of this type."""
        return f"{kind.__module__}.{kind.__qualname__}" in self.classes


class NotBegun(Exception):
    """A call for which no worker was free in time."""


class StartFailed(Exception):
    """A worker cannot load its function; `cause` is what was raised there, None where its process ended."""

    def __init__(self, reason: str, cause: CallFailed | None = None) -> None:
        super().__init__(reason)
        self.cause = cause


class WorkerPool:
    """Calls one function in worker processes, which are started when they are needed. Any thread may call it.

    The processes end with the pool, and with the process that has it,
    however that ends. A process that is forked starts workers of its own: two that wrote into one pipe would
    get each other's results.

    Args:
        load: called in each worker, with `arguments`, to get the function. It and its arguments are pickled.

    Raises:
        TypeError, AttributeError, pickle.PicklingError: `load` or an argument cannot be pickled.
    """

    def __init__(
        self, load: Callable[..., Callable[..., Any]], arguments: Sequence[Any], limits: WorkerLimits
    ) -> None:
        self.limits = limits
        self._setup = pickle.dumps(
            {
                "seconds": limits.seconds,
                "cpu_seconds": limits.cpu_seconds,
                "gigabytes": limits.gigabytes,
                "sys_path": [path for path in sys.path if path],  # not the working directory
                "load": pickle.dumps((load, tuple(arguments))),  # read once `sys_path` is set
            }
        )
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        """Have workers of which none is started yet."""
        self._workers = [_Worker(self._setup, self.limits) for _ in range(self.limits.workers)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the one used last is warm
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(self.limits.workers, "curro-workers")
        self._finalizer = weakref.finalize(self, _close, self._workers)

    def leave_to_parent(self) -> None:
        """Leave the workers to the process that this one was forked from."""
        self._finalizer.detach()
        for worker in self._workers:
            worker.leave_to_parent()
        self._begin()

    def start(self) -> None:
        """Start one worker now and wait until it has loaded the function.

        Raises:
            StartFailed: it cannot.
        """
        with self._worker() as worker:
            worker.start()

    def submit(self, *arguments: Any, begin_by: float | None = None) -> Future[Any]:
        """What the function returns, as JSON has it: arrays and tuples as lists, other numbers as floats.

        A future that is cancelled before its call begins is never called. A call that has begun keeps its
        worker until it ends.

        Args:
            begin_by: the time, by `time.monotonic()`, after which the call is not begun any more.

        Raises:
            NotBegun: no worker was free by that time. This and the following from the future.
            WorkerLost: the call exhausted a limit, or its process ended.
            CallFailed: the function raised.
            StartFailed: the worker cannot load the function.
        """
        return self._threads.submit(self._call, arguments, begin_by)

    def close(self) -> None:
        """End the processes, and lose the calls that they are at; a later call starts them again."""
        _close(self._workers)

    def _call(self, arguments: tuple[Any, ...], begin_by: float | None) -> Any:
        if begin_by is not None and time.monotonic() > begin_by:
            raise NotBegun
        with self._worker() as worker:
            return worker.call(arguments)

    @contextlib.contextmanager
    def _worker(self) -> Iterator[_Worker]:
        worker = self._idle.get()
        try:
            yield worker
        finally:
            self._idle.put(worker)


_pools = in_forked_processes(WorkerPool.leave_to_parent)


def _close(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.close()


END_SECONDS = 5.0
"""Seconds to wait for a process to exit that has closed its output or was killed."""


class _Worker:
    """One process, started for the first call and again after it has ended. One thread calls it at a time."""

    def __init__(self, setup: bytes, limits: WorkerLimits) -> None:
        self._setup, self._limits = setup, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        # -P: the working directory is the user's, whose random.py must not replace the standard one
        command = [sys.executable, "-P", child.__file__]
        self._connection, other_end = Pipe()
        with other_end:
            self._process = subprocess.Popen(command, stdin=other_end.fileno(), start_new_session=True)
        reply = self._exchange(self._setup, None)
        if not reply:
            raise StartFailed(f"ended as it started, with {self._end(END_SECONDS)}")
        answer = json.loads(reply)
        if "raised" in answer:
            self._end()
            cause = CallFailed(**answer)
            raise StartFailed(str(cause), cause)

    def call(self, arguments: tuple[Any, ...]) -> Any:
        job = pickle.dumps(arguments)
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self._end()  # it has died since its last job
            if self._process is None:
                self.start()
            reply = self._exchange(job, self._limits.seconds)
            if reply is None:
                self._end()
                raise WorkerLost(f"it took longer than {self._limits.seconds:g} s", from_outside=True)
            if not reply:
                end = self._end(END_SECONDS)
                raise WorkerLost(f"its process ended with {end}", from_outside=end in _FROM_OUTSIDE)
        answer = json.loads(reply)
        if "raised" in answer:
            raise CallFailed(**answer)
        if answer.get("lost") == "memory":
            raise WorkerLost(f"it needed more than {self._limits.gigabytes:g} GB of memory")
        if "lost" in answer:
            raise WorkerLost(f"it took more than {self._limits.cpu_seconds:g} s of processor time")
        return answer["value"]

    def close(self) -> None:
        """Kill the process; a call that waits for it raises `WorkerLost`."""
        if self._process is not None:
            _kill(self._process)
        if self._lock.acquire(timeout=END_SECONDS):
            try:
                self._end()
            finally:
                self._lock.release()

    def leave_to_parent(self) -> None:
        """Let go of the process in a child that was forked."""
        if self._process is not None:
            self._connection.close()
            self._process.returncode = 0  # the parent's child, for which this process cannot wait

    def _exchange(self, message: bytes, seconds: float | None) -> bytes | None:
        """The process's reply to a message, empty if it has ended; None if nothing came in time."""
        with contextlib.suppress(EOFError, OSError):  # it has ended
            self._connection.send_bytes(message)
            return self._reply(seconds)
        return b""

    def _reply(self, seconds: float | None) -> bytes | None:
        return self._connection.recv_bytes() if self._connection.poll(seconds) else None

    def _end(self, seconds: float = 0.0) -> str:
        """End the process, unless it ends by itself in so many seconds, and say how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        _kill(process)
        code = process.wait()
        self._connection.close()
        return f"exit status {code}" if code >= 0 else signal.Signals(-code).name


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its group, which may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()

"""One pool of worker processes, for every function that may hang, crash, leak or eat the memory.

math-verify's and reasoning-gym's checks, a user's reward and a filler's scorer run in it. Each worker is a
process of its own group with limits on time and memory. A call that exhausts a limit, or crashes its process,
fails alone: its worker is started again, and the others go on. POSIX only.

Pools of libraries (pebble, concurrent.futures) unpickle what their workers send. Here a worker has read text
that a model wrote, so its results come back as JSON. Those pools limit neither processor time nor memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from curro.reward.workers import child
from curro.reward.workers.forks import in_forked_processes

END_SECONDS = 5.0
"""Seconds to wait for a process to exit that has closed its output or was killed."""


_FROM_OUTSIDE = (signal.SIGKILL.name, signal.SIGALRM.name)
"""Signals that end a process from outside: somebody killed it, or its limit on the clock is long over."""


@dataclass(frozen=True)
class WorkerLimits:
    """What the workers of a pool may take.

    Attributes:
        workers: processes that work at the same time.
        seconds: on the clock, for one call; None for no limit. The wait for a worker and its start do not
            count.
        gigabytes: of address space, for one process (2^30 bytes each); None for no limit.
        cpu_seconds: of processor time, for one call; None for no limit.
    """

    workers: int = 1
    seconds: float | None = 60.0
    gigabytes: float | None = 8.0
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

    The processes end with the pool, and with the process that has it, however that ends. A process that is
    forked starts workers of its own: two that wrote into one pipe would get each other's results.

    Args:
        load: called in each worker, with `arguments`, to get the function. It and its arguments are pickled.
        options: keyword arguments of every call.
        sys_path: the workers' `sys.path`; by default Python's own, without the working directory. The folder
            of curro is added.
        with_main: import the running script in the workers too, where the function may be defined.

    Raises:
        TypeError, AttributeError, pickle.PicklingError: `load` or an argument cannot be pickled.
    """

    def __init__(
        self,
        load: Callable[..., Callable[..., Any]],
        arguments: Sequence[Any],
        limits: WorkerLimits,
        *,
        options: Mapping[str, Any] | None = None,
        sys_path: Sequence[str] | None = None,
        with_main: bool = False,
    ) -> None:
        setup = pickle.dumps(
            {
                "seconds": limits.seconds,
                "cpu_seconds": limits.cpu_seconds,
                "gigabytes": limits.gigabytes,
                "sys_path": None if sys_path is None else list(sys_path),
                "home": str(Path(child.__file__).parents[3]),
                "main": _main_module() if with_main else None,
                "load": pickle.dumps((load, tuple(arguments))),
                "options": dict(options or {}),
            }
        )
        self.limits, self._setup = limits, setup
        self._begin()
        _pools.add(self)

    def _begin(self) -> None:
        """Have workers of which none is started yet."""
        self._workers = [_Worker(self._setup, self.limits) for _ in range(self.limits.workers)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the one used last is warm
        for worker in self._workers:
            self._idle.put(worker)
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
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

    def call(self, *arguments: Any, begin_by: float | None = None) -> Any:
        """What the function returns, as JSON has it: arrays and tuples as lists, other numbers as floats.

        Args:
            begin_by: the time, by `time.monotonic()`, after which the call is not begun any more.

        Raises:
            NotBegun: no worker was free by that time.
            WorkerLost: the call exhausted a limit, or its process ended.
            CallFailed: the function raised.
            StartFailed: the worker cannot load the function.
        """
        with self._worker() as worker:
            if begin_by is not None and time.monotonic() > begin_by:
                raise NotBegun
            return worker.call(arguments)

    def submit(self, *arguments: Any, begin_by: float | None = None) -> Future[Any]:
        """Make a call in a thread of the pool's.

        A future that is cancelled before its call begins is never called. A call that has begun keeps its
        worker until it ends, so that no more calls than workers run at a time.
        """
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(len(self._workers), "curro-workers")
            return self._threads.submit(self.call, *arguments, begin_by=begin_by)

    def close(self) -> None:
        """End the processes, and lose the calls that they are at; a later call starts them again."""
        _close(self._workers)

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
        worker.kill()
    for worker in workers:
        worker.end()


class _Worker:
    """One process, started for the first call and again after it has ended."""

    def __init__(self, setup: bytes, limits: WorkerLimits) -> None:
        self._setup, self._limits = setup, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = self._is_closing = False
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            self._ensure_ready()

    def call(self, arguments: tuple[Any, ...]) -> Any:
        job = pickle.dumps(arguments)
        with self._lock:
            try:
                self._send(self._ensure_ready(), job)
            except BrokenPipeError:  # it has died since its last job
                self._end()
                self._send(self._ensure_ready(), job)
            reply = self._reply(self._limits.seconds)
            if not reply:
                if reply is None:
                    reason, from_outside = f"it took longer than {self._limits.seconds:g} s", True
                else:
                    end = self._ended()
                    reason, from_outside = f"its process ended with {end}", end in _FROM_OUTSIDE
                self._restart()
                raise WorkerLost(reason, from_outside=from_outside)
        answer = json.loads(reply)
        if "raised" in answer:
            raise CallFailed(**answer)
        if answer.get("lost") == "memory":
            raise WorkerLost(f"it needed more than {self._limits.gigabytes:g} GB of memory")
        if "lost" in answer:
            raise WorkerLost(f"it took more than {self._limits.cpu_seconds:g} s of processor time")
        return answer["value"]

    def kill(self) -> None:
        """Kill the process and all that it has started. A call that waits for it raises `WorkerLost`."""
        self._is_closing = True
        process = self._process
        if process is not None:
            _kill(process)

    def end(self) -> None:
        """End what `kill` has killed."""
        if self._lock.acquire(timeout=END_SECONDS):
            try:
                self._end()
                self._is_closing = False
            finally:
                self._lock.release()

    def leave_to_parent(self) -> None:
        """Let go of the process in a child that was forked."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                # not the buffer: it would send what the parent sends, and a thread may hold its lock
                cast(BufferedReader, pipe).raw.close()
            self._process.returncode = 0  # the parent's child, for which this process cannot wait
            self._process = None

    def _restart(self) -> None:
        """End the process, and start another one while others work: to load its function may take seconds."""
        self._end()
        if not self._is_closing:
            self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # -P: the working directory is the user's, whose random.py must not replace the standard one
        command = [sys.executable, "-P", child.__file__]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        with contextlib.suppress(BrokenPipeError):  # reading its first reply finds out how it ended
            self._send(process, self._setup)
        return process

    def _ensure_ready(self) -> subprocess.Popen[bytes]:
        process = self._process or self._start()
        if not self._is_ready:
            reply = self._reply(None)
            if not reply:
                raise StartFailed(f"ended as it started, with {self._ended()}")
            answer = json.loads(reply)
            if "raised" in answer:
                self._end()
                cause = CallFailed(**answer)
                raise StartFailed(str(cause), cause)
            self._is_ready = True
        return process

    def _send(self, process: subprocess.Popen[bytes], message: bytes) -> None:
        assert process.stdin is not None
        process.stdin.write(struct.pack("<Q", len(message)) + message)
        process.stdin.flush()

    def _reply(self, seconds: float | None) -> bytes | None:
        """A line, empty if the process has ended; None if nothing came in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        output = self._process.stdout
        waiting = select.poll()
        waiting.register(output.fileno(), select.POLLIN)
        if not waiting.poll(None if seconds is None else 1000 * seconds):
            return None
        return output.readline()

    def _ended(self) -> str:
        """How the process ended."""
        assert self._process is not None
        process = self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        self._end()
        code = process.returncode
        return f"exit status {code}" if code >= 0 else signal.Signals(-code).name

    def _end(self) -> None:
        if self._process is not None:
            _kill(self._process)
            with contextlib.suppress(BrokenPipeError):  # what was not yet sent to it
                self._process.communicate()
        self._process, self._is_ready = None, False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its group, which may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _main_module() -> dict[str, Any]:
    """How to import the running script elsewhere, for `multiprocessing.spawn.prepare`."""
    from multiprocessing import spawn

    preparation = spawn.get_preparation_data("curro-worker")
    return {name: value for name, value in preparation.items() if name != "authkey"}

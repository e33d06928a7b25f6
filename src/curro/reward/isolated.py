"""Checks that may hang, crash or eat the memory, in processes that may.

A check is a module with `check(job) -> float`. Its jobs and results cross as lines of JSON, so that nothing
that a check did can run in this process. A check has limits of processor time and memory, in its process, and
of time on the clock, here; all checks of a batch together have one of time. POSIX only.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from curro.errors import RewardError

CHECK_SECONDS = 5.0
"""On the clock; a check that takes longer is ended with its process."""

BATCH_SECONDS = 60.0
"""On the clock, after which no check of a batch is begun."""

KNOWN = 8192
"""Results that are kept, of the latest jobs."""


class RefusedError(Exception):
    """Raised by a check for a job that is the user's mistake, never for what a model wrote."""


class Unchecked:
    """What a job has for a result that was not begun in its batch's time: neither right nor wrong."""


UNCHECKED = Unchecked()
Result = float | Unchecked | None


@functools.cache
def pool(module: str) -> Pool:
    """The one pool of the process for the checks of `module`; it ends with the process."""
    made = Pool(module, min(4, os.cpu_count() or 1))
    atexit.register(made.close)
    return made


class Pool:
    """Up to `size` worker processes for one check, started when first needed. Any thread may call it."""

    def __init__(self, module: str, size: int) -> None:
        self.size = size
        self._known: OrderedDict[bytes, float | None] = OrderedDict()
        self._lock = threading.Lock()
        self._workers = [_Worker(module) for _ in range(size)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the last used one is warm
        for worker in self._workers:
            self._idle.put(worker)

    def map(self, jobs: Sequence[Any], seconds: float = BATCH_SECONDS) -> list[Result]:
        """The result of every job, None for those that exhausted a limit, crashed or raised.

        A job that came before gets the result that it had then.

        Args:
            seconds: after which the jobs that are not begun get UNCHECKED.

        Raises:
            RewardError: the check cannot be imported, or refused a job.
        """
        if not jobs:
            return []
        deadline = time.monotonic() + seconds
        with ThreadPoolExecutor(min(self.size, len(jobs))) as threads:
            return list(threads.map(lambda job: self._result(job, deadline), jobs))

    def close(self) -> None:
        """End the workers; a later job starts them again."""
        for worker in self._workers:
            worker.close()

    def _result(self, job: Any, deadline: float) -> Result:
        line = json.dumps(job, default=str)
        digest = hashlib.blake2b(line.encode(), digest_size=16).digest()
        with self._lock:
            if digest in self._known:
                self._known.move_to_end(digest)
                return self._known[digest]
        worker = self._idle.get()
        try:
            if time.monotonic() > deadline:
                return UNCHECKED
            result = worker.run(line)
        finally:
            self._idle.put(worker)
        with self._lock:
            self._known[digest] = result
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return result


class _Worker:
    """A process that is started when a job comes, and again as soon as one has ended it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[str] | None = None
        self._ready = False

    def run(self, job: str) -> float | None:
        """The result of a job, a line of JSON; None if its process ended, or had to be ended."""
        self._give(job)
        line = self._told() if self._speaks(CHECK_SECONDS) else ""
        if not line:
            self.close()
            self._start()  # while others work: it takes seconds
            return None
        reply = json.loads(line)
        if "error" in reply:
            raise RewardError(reply["error"])
        return reply["score"]

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process, self._ready = None, False

    def _give(self, job: str) -> None:
        """Hand over the job; to a new process where the old one has died since its last job."""
        try:
            self._write(job)
        except BrokenPipeError:
            self.close()
            self._write(job)

    def _write(self, job: str) -> None:
        process = self._process or self._start()
        if not self._ready:
            reply = json.loads(self._told() or '{"error": "the process ended as it started"}')
            if "error" in reply:
                self.close()
                raise RewardError(f"{self._module} cannot run: {reply['error']}")
            self._ready = True
        process.stdin.write(job + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    def _start(self) -> subprocess.Popen[str]:
        # -P: the working directory is the user's, whose random.py must not replace the standard one
        command = [sys.executable, "-P", "-m", "curro.reward.worker", self._module]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self._process

    def _told(self) -> str:
        return self._process.stdout.readline()  # type: ignore[union-attr]

    def _speaks(self, seconds: float) -> bool:
        """Whether the process writes something, or ends, within so many seconds."""
        waiting = select.poll()
        waiting.register(self._process.stdout.fileno(), select.POLLIN)  # type: ignore[union-attr]
        return bool(waiting.poll(1000 * seconds))

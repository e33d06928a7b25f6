"""Checks that may hang, crash or eat the memory, in processes that may.

A check is a module with `check(job) -> float`. Its jobs and results cross as lines of JSON, so that nothing
that a check did can run in this process. Limits are of processor time and memory, not of the clock: a busy
machine changes no score. POSIX only.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from curro.errors import RewardError


class RefusedError(Exception):
    """Raised by a check for a job that is the user's mistake, never for what a model wrote."""


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
        self._workers = [_Worker(module) for _ in range(size)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the last used one is warm
        for worker in self._workers:
            self._idle.put(worker)

    def map(self, jobs: Sequence[Any]) -> list[float | None]:
        """The result of every job, None for those that exhausted a limit, crashed or raised.

        Raises:
            RewardError: the check cannot be imported, or refused a job.
        """
        if not jobs:
            return []
        with ThreadPoolExecutor(min(self.size, len(jobs))) as threads:
            return list(threads.map(self._run, jobs))

    def close(self) -> None:
        """End the workers; a later job starts them again."""
        for worker in self._workers:
            worker.close()

    def _run(self, job: Any) -> float | None:
        worker = self._idle.get()
        try:
            return worker.run(job)
        finally:
            self._idle.put(worker)


class _Worker:
    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[str] | None = None

    def run(self, job: Any) -> float | None:
        process = self._process or self._start()
        try:
            process.stdin.write(json.dumps(job, default=str) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            line = process.stdout.readline()  # type: ignore[union-attr]
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            return None
        reply = json.loads(line)
        if "error" in reply:
            raise RewardError(reply["error"])
        return reply["score"]

    def _start(self) -> subprocess.Popen[str]:
        # -P: the working directory is the user's, whose random.py must not replace the standard one
        command = [sys.executable, "-P", "-m", "curro.reward.worker", self._module]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process = process
        reply = json.loads(process.stdout.readline() or '{"error": "the process ended as it started"}')  # type: ignore[union-attr]
        if "error" in reply:
            self.close()
            raise RewardError(f"{self._module} cannot run: {reply['error']}")
        return process

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

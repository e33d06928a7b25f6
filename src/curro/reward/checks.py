"""Checks of answers by libraries that may hang, crash or eat the memory, in worker processes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

from curro.core.errors import RewardError
from curro.core.text import install_extra
from curro.reward.workers import child
from curro.reward.workers.forks import in_forked_processes
from curro.reward.workers.pool import CallFailed, NotBegun, StartFailed, WorkerLimits, WorkerLost, WorkerPool

CHECK_LIMITS = WorkerLimits(min(4, os.cpu_count() or 1), seconds=120.0, gigabytes=4.0, cpu_seconds=2.0)
"""Limits of every check. One that exhausts them is interrupted, or ends with its process.

A check only computes, so processor time is its limit: on a busy machine the clock runs twenty times as far.
The clock's limit ends checks that waited for the machine. They say nothing about the answer.
"""

BATCH_SECONDS = 60.0
"""Seconds on the clock after which no check of a batch is begun."""

MOST_RESULTS = 8192
"""Number of results that are kept, from the latest jobs."""


@cache
def checks(module: str) -> Checks:
    """The one pool of this process for the checks of `module`."""
    return Checks(module)


class Checks:
    """Runs the function `check` of a module, from a job to a float, on batches of jobs.

    Any thread may call it.
    """

    def __init__(self, module: str, limits: WorkerLimits = CHECK_LIMITS) -> None:
        self._module = module
        self._pool = WorkerPool(child.load_check, [module], limits)
        self._known: OrderedDict[bytes, float | None] = OrderedDict()
        self._has_warned = False
        self.make_lock()
        _every.add(self)

    def make_lock(self) -> None:
        """Make a new lock in a forked process, which has no thread to release the old one."""
        self._lock = threading.Lock()

    def scores(self, jobs: Sequence[Hashable], seconds: float = BATCH_SECONDS) -> list[float | None]:
        """The score of every job: 0.0 for a check that took too much processor time or memory, crashed,
        raised an error, or gave no number.

        Equal jobs are checked once, and a job that came before gets the score that it had then.

        Args:
            jobs: what JSON can hold: texts, or tuples of texts.
            seconds: jobs that have not begun by then get None, as do jobs that the clock or another process
                ended. They are neither right nor wrong, and are checked anew when they come again.

        Raises:
            RewardError: the check cannot be loaded, or it raised this error for a mistake of the user's.
        """
        begin_by = time.monotonic() + seconds
        scores: dict[Hashable, float | None] = {}
        futures: dict[Hashable, Future[Any]] = {}
        for job in dict.fromkeys(jobs):
            scores[job] = self._known_score(job)
            if scores[job] is None:
                futures[job] = self._pool.submit(job, begin_by=begin_by)
        try:
            for job, future in futures.items():
                scores[job] = self._new_score(job, future)
        finally:
            for future in futures.values():
                future.cancel()
        lost = sum(score is None for score in scores.values())
        if lost and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{lost} of {len(scores)} answers were not checked in time, for the machine is busy or the "
                "batch large: such completions are not scored",
                RuntimeWarning,
                stacklevel=2,
            )
        return [scores[job] for job in jobs]

    def close(self) -> None:
        """End the processes; a later job starts them again."""
        self._pool.close()

    def _known_score(self, job: Hashable) -> float | None:
        digest = _digest(job)
        with self._lock:
            if digest in self._known:
                self._known.move_to_end(digest)
            return self._known.get(digest)

    def _new_score(self, job: Hashable, future: Future[Any]) -> float | None:
        try:
            score = future.result()
        except NotBegun:
            return None
        except WorkerLost as error:
            if error.from_outside:
                return None
            score = 0.0
        except CallFailed as error:
            if error.is_a(RewardError):
                raise RewardError(error.message) from None
            score = 0.0
        except StartFailed as error:
            missing = error.cause is not None and error.cause.is_a(ImportError)
            hint = f": {install_extra('train')}" if missing else ""
            reason = error.cause.message if error.cause else f"its process {error}"
            raise RewardError(f"{self._module} cannot run: {reason}{hint}") from None
        score = float(score) if isinstance(score, float | int) and math.isfinite(score) else 0.0
        with self._lock:
            self._known[_digest(job)] = score
            if len(self._known) > MOST_RESULTS:
                self._known.popitem(last=False)
        return score


_every = in_forked_processes(Checks.make_lock)


def _digest(job: Hashable) -> bytes:
    return hashlib.blake2b(json.dumps(job).encode(), digest_size=16).digest()

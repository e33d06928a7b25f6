"""Checks of answers by libraries that may hang, crash or eat the memory, in worker processes."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

from curro.core.errors import RewardError
from curro.core.text import install_extra
from curro.reward.workers import child
from curro.reward.workers.pool import CallFailed, NotBegun, StartFailed, WorkerLimits, WorkerLost, WorkerPool

CHECK_LIMITS = WorkerLimits(min(4, os.cpu_count() or 1), seconds=120.0, gigabytes=4.0, cpu_seconds=2.0)
"""Limits of every check. One that exhausts them is interrupted, or ends with its process.

A check only computes, so processor time is its limit: on a busy machine the clock runs twenty times as far.
The clock's limit ends checks that waited for the machine. They say nothing about the answer.
"""

BATCH_SECONDS = 60.0
"""Seconds on the clock after which no check of a batch is begun."""


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
        self._has_warned = False

    def scores(self, jobs: Sequence[Hashable], seconds: float = BATCH_SECONDS) -> list[float | None]:
        """The score of every job: 0.0 for a check that took too much processor time or memory, crashed,
        raised an error, or gave no number.

        Equal jobs of a batch are checked once.

        Args:
            jobs: what JSON can hold: texts, or tuples of texts.
            seconds: jobs that have not begun by then get None, as do jobs that the clock or another process
                ended. They are neither right nor wrong.

        Raises:
            RewardError: the check cannot be loaded, or it raised this error for a mistake of the user's.
        """
        begin_by = time.monotonic() + seconds
        futures = {job: self._pool.submit(job, begin_by=begin_by) for job in dict.fromkeys(jobs)}
        try:
            scores = {job: self._score(future) for job, future in futures.items()}
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

    def _score(self, future: Future[Any]) -> float | None:
        try:
            score = future.result()
        except NotBegun:
            return None
        except WorkerLost as error:
            return None if error.from_outside else 0.0
        except CallFailed as error:
            if error.is_a(RewardError):
                raise RewardError(error.message) from None
            return 0.0
        except StartFailed as error:
            missing = error.cause is not None and error.cause.is_a(ImportError)
            hint = f": {install_extra('train')}" if missing else ""
            reason = error.cause.message if error.cause else f"its process {error}"
            raise RewardError(f"{self._module} cannot run: {reason}{hint}") from None
        return float(score) if isinstance(score, float | int) and math.isfinite(score) else 0.0

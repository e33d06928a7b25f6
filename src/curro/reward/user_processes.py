"""A function of the user's own in processes of its own: it may hang, crash, leak or end its process.

Prompts and completions go there as pickles, which are trusted on the other side because they come from here;
scores come back as JSON, so that nothing that the function did can run in this process. POSIX only.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import select
import signal
import struct
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from curro.errors import ConfigError, RewardError
from curro.reward import user
from curro.reward.reward import Row, Score, key


@dataclass(frozen=True)
class Limits:
    """What a reward function may take.

    Attributes:
        workers: processes that score at the same time.
        seconds: on the clock, for one completion.
        gigabytes: of address space, for one process.
    """

    workers: int = 1
    seconds: float = 60.0
    gigabytes: float = 8.0


def load(
    limits: Limits, spec: str, options: Mapping[str, Any] | None = None
) -> Callable[[Sequence[str], Sequence[Row]], list[Score]]:
    """As `curro.reward.user.load`, with the function in worker processes, which are started when needed.

    A completion for which the function exceeds a limit or crashes is not scored, and its process is started
    again.

    Raises:
        ConfigError: the module cannot be imported, or has no such function.
    """
    return _Workers(spec, options or {}, limits)


class _Workers:
    def __init__(self, spec: str, options: Mapping[str, Any], limits: Limits) -> None:
        self.spec, self.size = spec, limits.workers
        self._has_warned = False
        self._all = [_Worker(spec, options, limits) for _ in range(limits.workers)]
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()  # the last used one is warm
        for worker in self._all:
            self._idle.put(worker)
        weakref.finalize(self, _close, self._all)
        self._all[-1].start()

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The scores of B completions, None where there is none.

        Raises:
            RewardError: the function raised, or there was none of B processes that lived to answer.
        """
        if not rows:
            return []
        with ThreadPoolExecutor(min(self.size, len(rows))) as threads:
            found = list(threads.map(self._score, completions, rows))
        lost = [one for one in found if isinstance(one, _Lost)]
        if lost:
            said = f"reward {self.spec!r} was ended for the prompt {lost[0].prompt}: {lost[0].reason}"
            if len(lost) == len(found):
                raise RewardError(f"{said}; so it was for all {len(found)} completions of the batch")
            if not self._has_warned:
                warnings.warn(f"{said}; such completions are not scored", RuntimeWarning, stacklevel=2)
            self._has_warned = True
        return [None if isinstance(one, _Lost) else one for one in found]

    def _score(self, completion: str, row: Row) -> Score | _Lost:
        worker = self._idle.get()
        try:
            return worker.score(completion, row)
        finally:
            self._idle.put(worker)


@dataclass(frozen=True)
class _Lost:
    """Why a completion has no score."""

    prompt: str
    reason: str


class _Worker:
    """One process, started when a job comes and again after it has ended."""

    def __init__(self, spec: str, options: Mapping[str, Any], limits: Limits) -> None:
        self._spec, self._limits = spec, limits
        self._told = json.dumps([spec, dict(options), limits.seconds, limits.gigabytes, sys.path])
        self._process: subprocess.Popen[bytes] | None = None

    def score(self, completion: str, row: Row) -> Score | _Lost:
        job = pickle.dumps((completion, row))
        try:
            self._give(job)
        except BrokenPipeError:  # it has died since its last job
            self.close()
            self._give(job)
        reply = self._reply(self._limits.seconds)
        if reply is None:
            self.close()
            return _Lost(key(row), f"it took longer than {self._limits.seconds:g} s")
        if not reply:
            return _Lost(key(row), f"its process ended with {self._ended()}")
        answer = json.loads(reply)
        if "memory" in answer:
            return _Lost(key(row), f"it needed more than {self._limits.gigabytes:g} GB of memory")
        if "error" in answer:
            raise RewardError(f"reward {self._spec!r} failed for the prompt {key(row)}: {answer['error']}")
        return answer["score"]

    def close(self) -> None:
        """End the process and all that it has started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _give(self, job: bytes) -> None:
        process = self._process or self.start()
        process.stdin.write(struct.pack("<Q", len(job)) + job)  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process.

        Raises:
            ConfigError: the function cannot be loaded there.
        """
        command = [sys.executable, "-m", "curro.reward.user_worker", self._told]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        reply = self._reply(None)
        if not reply:
            how = self._ended()
            raise ConfigError(f"the process of the reward {self._spec!r} ended as it started, with {how}")
        if "error" in json.loads(reply):
            self.close()
            raise ConfigError(json.loads(reply)["error"])
        return process

    def _reply(self, seconds: float | None) -> bytes | None:
        """A line, empty if the process has ended; None if nothing came in time."""
        out = self._process.stdout  # type: ignore[union-attr]
        waiting = select.poll()
        waiting.register(out.fileno(), select.POLLIN)  # type: ignore[union-attr]
        if not waiting.poll(None if seconds is None else 1000 * seconds):
            return None
        return out.readline()  # type: ignore[union-attr]

    def _ended(self) -> str:
        """How the process ended."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        self.close()
        code = process.returncode
        return f"exit status {code}" if code >= 0 else signal.Signals(-code).name


def _close(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.close()


def loader(limits: Limits | None) -> Callable[..., Any]:
    """How `resolve_reward` loads a function of the user's own: here, where there are no limits."""
    return user.load if limits is None else partial(load, limits)

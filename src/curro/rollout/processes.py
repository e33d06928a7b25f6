"""Processes for a function that may hang, crash or leak, replaced when they do."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any

from curro.errors import ConfigError, EngineError, RewardError
from curro.rollout.group import GroupFailed

_STARTED_EVERY = 0.01
"""Seconds between two looks at whether the processes have started."""


class Processes:
    """Calls a function in one of several processes.

    When a process crashes or a call exceeds the time, all are replaced, and the other calls that were under
    way are made again, one at a time in a process of their own: only the call at fault fails. A call that is
    cancelled while it runs keeps its process until it ends or exceeds the time.

    Args:
        function: what to call; it is sent to each process once, as it starts.
        workers: how many processes.
        timeout: seconds that a call may take; waiting for a process and its start does not count.

    Raises:
        ConfigError: the function cannot be sent to a process.
    """

    def __init__(self, function: Callable[..., Any], workers: int, timeout: float | None) -> None:
        try:
            pickle.dumps(function)
        except Exception as error:
            raise ConfigError(
                f"the scorer cannot be sent to worker processes ({error}): "
                "define it at the top level of a module"
            ) from error
        self._function, self._workers, self._timeout = function, workers, timeout
        self._pool: ProcessPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, *args: Any) -> Any:
        """What the function returns.

        Raises:
            RewardError, EngineError: the function raised it.
            Raised: the function raised something else.
            GroupFailed: it crashed its process, or took too long.
            ConfigError: the processes do not start.
        """
        self._enter_loop()
        await self._places.acquire()
        call = asyncio.ensure_future(self._in_place(*args))
        call.add_done_callback(self._leave)
        try:
            return await asyncio.shield(call)
        except BrokenExecutor:
            pass
        async with self._alone:
            pool = await self._start(1)
            try:
                return await self._call(pool, *args)
            except BrokenExecutor as error:
                raise GroupFailed("the scorer crashed its process") from error
            finally:
                _kill(pool)

    def close(self) -> None:
        """End the processes; a later call starts them again."""
        if self._pool is not None:
            _kill(self._pool)
            self._pool = None

    async def _in_place(self, *args: Any) -> Any:
        """A call that goes on, and keeps its place, when nobody waits for it any more: its process does."""
        async with self._starting:
            pool = self._pool = self._pool or await self._start(self._workers)
        try:
            return await self._call(pool, *args)
        except (BrokenExecutor, GroupFailed):
            self._replace(pool)
            raise

    def _leave(self, call: asyncio.Task[Any]) -> None:
        self._places.release()
        if not call.cancelled():
            call.exception()  # asked for, or asyncio would report it where nobody waits

    async def _call(self, pool: ProcessPoolExecutor, *args: Any) -> Any:
        future = asyncio.wrap_future(pool.submit(_call_prepared, *args))
        try:
            async with asyncio.timeout(self._timeout):
                return await future
        except TimeoutError as error:
            raise GroupFailed(f"the scorer gave nothing in {self._timeout} s") from error

    async def _start(self, workers: int) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        started = context.Semaphore(0)
        pool = ProcessPoolExecutor(workers, context, _prepare, (started, self._function))
        try:
            # as long as none is idle, every call starts one more
            calls = [pool.submit(int) for _ in range(workers)]
            for _ in range(workers):
                while not started.acquire(block=False):
                    if any(one.done() and one.exception() for one in calls):
                        raise ConfigError(
                            "the scorer's processes ended as they started, and have written why: the scorer "
                            'must import without error, and a script needs `if __name__ == "__main__":`'
                        )
                    await asyncio.sleep(_STARTED_EVERY)
        except BaseException:
            _kill(pool)
            raise
        return pool

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        if self._pool is pool:
            self._pool = None
        _kill(pool)

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._places = loop, asyncio.Semaphore(self._workers)
            self._starting, self._alone = asyncio.Lock(), asyncio.Lock()


class Raised(Exception):
    """What a function raised, as text: its own exception may not survive the way between processes."""


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a thread or process; whatever it raises comes back as something that can.

    Raises:
        RewardError, EngineError: the function raised it.
        Raised: the function raised anything else, `SystemExit` included.
    """
    try:
        return function(*args)
    except RewardError as error:
        raise RewardError(str(error)) from error
    except EngineError as error:
        raise EngineError(str(error)) from error
    except BaseException as error:
        raise Raised(f"{type(error).__name__}: {error}") from error


_prepared: Callable[..., Any]


def _prepare(started: Any, function: Callable[..., Any]) -> None:
    global _prepared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prepared = function
    started.release()


def _call_prepared(*args: Any) -> Any:
    return call(_prepared, *args)


def _kill(pool: ProcessPoolExecutor) -> None:
    processes = list((pool._processes or {}).values())
    for process in processes:
        process.kill()
    pool.shutdown(wait=True, cancel_futures=True)

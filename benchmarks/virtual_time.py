"""An event loop whose time passes only while nothing happens: simulated hours in seconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Jumping(selectors.SelectSelector):
    """A selector that waits by moving the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("nothing runs and nothing is awaited: the program waits for ever")
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: `asyncio.sleep(3600)` takes no time, and nothing depends on speed.

    For programs without threads and processes, whose ends it does not wait for.
    """

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run` in virtual time; what goes wrong in a callback is raised."""
    wrong: list[Any] = []
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: wrong.append(context))
        result = runner.run(main)
    assert not wrong, wrong
    return result

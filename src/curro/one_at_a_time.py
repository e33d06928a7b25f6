"""One call of an object's methods at a time, whichever thread it comes from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Locked(Protocol):
    """An object with a lock of its own."""

    _lock: RLock


P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L", bound=Locked)


def one_at_a_time(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """Hold the object's lock while the method runs, so that several threads may call it."""

    @functools.wraps(method)
    def locked(self: L, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return locked

"""What objects do first in a process that is forked from the one that made them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def in_forked_processes(call: Callable[[Made], object]) -> weakref.WeakSet[Made]:
    """A set of objects; a forked process makes the call with each of them before anything else.

    A forked child has none of its parent's threads, so locks that they held are never released.
    """
    objects: weakref.WeakSet[Made] = weakref.WeakSet()

    def call_all() -> None:
        for made in list(objects):
            call(made)

    os.register_at_fork(after_in_child=call_all)
    return objects

"""The process on the other side of `curro.reward.user_processes`, which calls the user's function."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from curro.errors import ConfigError
from curro.loading import load_callable


def main(told: str) -> None:
    """Serve the function that `told` names on standard input and output until the input ends."""
    spec, options, seconds, gigabytes, path = json.loads(told)
    sys.path[:] = path
    jobs, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the function prints is no reply
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    size = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        function = partial(load_callable(spec, "reward"), **options)
    except ConfigError as error:
        _write(replies, {"error": str(error)})
        return
    except BaseException as error:  # SystemExit too
        what = f"{type(error).__name__}: {error}"
        _write(replies, {"error": f"reward {spec!r}: importing its module failed: {what}"})
        return
    _write(replies, {"ready": True})
    while head := jobs.read(8):
        completion, row = pickle.loads(jobs.read(struct.unpack("<Q", head)[0]))
        # it ends this process even if the trainer has died meanwhile
        signal.setitimer(signal.ITIMER_REAL, seconds + 5)
        _write(replies, _reply(function, completion, row))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _reply(function: Callable[..., Any], completion: str, row: Any) -> dict[str, Any]:
    here = os.getpid()
    try:
        score = function(completion, row)
        reply = {"score": score if score is None else _number(score)}
    except MemoryError:
        reply = {"memory": True}
    except BaseException as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    if os.getpid() != here:
        os._exit(0)  # a child that the function forked answers nothing
    return reply


def _number(score: Any) -> Any:
    """What `Reward` can check: a float, or text that it refuses."""
    try:
        return float(score)
    except (TypeError, ValueError, OverflowError):
        return repr(score)[:100]


def _write(replies: BinaryIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])

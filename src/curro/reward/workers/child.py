"""The worker's side of the process pool: load a function, call it with every job, write its result.

It runs as a script and imports nothing of curro, so that a worker starts as fast as its function allows.
Jobs arrive as pickles, which are trusted because the trainer made them. Results leave as JSON, so that
nothing that the function did can run in the trainer.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import math
import os
import pickle
import resource
import signal
import sys
import sysconfig
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

GRACE_SECONDS = 5.0
"""Seconds after its time limit when a worker ends itself, for the trainer may have died meanwhile."""


MOST_CHARACTERS = 10_000
"""Characters of an error's text that are told."""


class OutOfTime(BaseException):
    """No `Exception`: the libraries that are interrupted would catch that and go on."""


def main() -> None:
    """Serve one function on the connection that is standard input until its other end is closed."""
    trainer = Connection(os.dup(0))
    os.dup2(2, 1)  # the trainer's standard output may be a page or a table
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    setup = pickle.loads(trainer.recv_bytes())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = int(setup["gigabytes"] * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        sys.path += [path for path in setup["sys_path"] if path not in sys.path]
        load, load_arguments = pickle.loads(setup["load"])
        function = load(*load_arguments)
    except BaseException as error:  # SystemExit too
        trainer.send_bytes(_raised(error))
        return
    trainer.send_bytes(b'{"ready": true}')
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            arguments = pickle.loads(trainer.recv_bytes())
            signal.setitimer(signal.ITIMER_REAL, setup["seconds"] + GRACE_SECONDS)
            trainer.send_bytes(_reply(function, arguments, setup["cpu_seconds"]))
            signal.setitimer(signal.ITIMER_REAL, 0)


def load_check(module: str) -> Callable[..., Any]:
    """Load the function `check` of a module, call its `warm` if it has one, and silence this process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    loaded = importlib.import_module(module)
    if hasattr(loaded, "warm"):
        loaded.warm()
    return loaded.check


def _reply(function: Callable[..., Any], arguments: Any, cpu_seconds: float | None) -> bytes:
    worker = os.getpid()
    try:
        reply = json.dumps({"value": _timed(function, arguments, cpu_seconds)}, default=_plain).encode()
    except MemoryError:
        reply = b'{"lost": "memory"}'
    except OutOfTime:
        reply = b'{"lost": "processor time"}'
    except BaseException as error:
        reply = _raised(error)
    if os.getpid() != worker:
        os._exit(0)  # a child that the function forked answers nothing
    return reply


def _timed(function: Callable[..., Any], arguments: Any, cpu_seconds: float | None) -> Any:
    if cpu_seconds is None:
        return function(*arguments)
    signal.signal(signal.SIGPROF, _interrupt)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + cpu_seconds + 1), hard))
    # the interval repeats the interrupt where a bare `except:` has swallowed it
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds, 0.5)
    try:
        return function(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _interrupt(signum: int, frame: Any) -> None:
    raise OutOfTime


def _plain(value: Any) -> Any:
    """What JSON lacks: arrays and tensors as lists, other numbers as floats, the rest as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return repr(value)[:100]


def _raised(error: BaseException) -> bytes:
    """An error as the trainer reads it: as text, because its type may not exist there."""
    reply = {
        "raised": describe(error),
        "message": _message(error),
        "classes": [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__],
        "location": location_of(error),
    }
    return json.dumps(reply).encode()


def describe(error: BaseException) -> str:
    """The type and the message of an error."""
    return f"{type(error).__name__}: {_message(error)}"


def _message(error: BaseException) -> str:
    """The text of an error, which may have none that can be read, or a completion of any length in it."""
    try:
        return str(error)[:MOST_CHARACTERS]
    except Exception:
        return "its message cannot be read"


def location_of(error: BaseException) -> str:
    """File, line and function where an error arose in the user's own code; "" where that is not known.

    It is the innermost line outside of installed packages, else the first one outside of curro.
    """
    curro = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((curro, "<"))
    ]
    user_frames = [frame for frame in frames if not frame.filename.startswith(installed)]
    if not frames:
        return ""
    frame = user_frames[-1] if user_frames else frames[0]
    return f"{frame.filename}:{frame.lineno}, in {frame.name}"


if __name__ == "__main__":
    main()

"""The process on the other side of `curro.reward.isolated`: reads jobs, checks them, writes scores."""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from curro.reward.isolated import RefusedError

CPU_SECONDS = 2.0
"""A check is interrupted after this much processor time, and killed one to two seconds later."""

MEMORY_BYTES = 4 << 30


class OutOfTime(BaseException):
    """Not an `Exception`: the libraries that are interrupted catch those and go on."""


def main(module: str) -> None:
    """Serve checks of `module` on standard input and output until the input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a check prints is no reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's to handle
    signal.signal(signal.SIGPROF, _interrupt)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        loaded = importlib.import_module(module)
        check, warm = loaded.check, getattr(loaded, "warm", None)
        if warm is not None:
            warm()
    except ImportError as error:
        replies.write(json.dumps({"error": f"{error}; pip install 'curro[train]'"}) + "\n")
        return
    replies.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        replies.write(json.dumps(_reply(check, json.loads(line))) + "\n")


def _reply(check: Callable[[Any], float], job: Any) -> dict[str, Any]:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + CPU_SECONDS + 1), hard))
    try:
        # the interval repeats the interrupt where a bare `except:` has swallowed it
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS, 0.5)
        try:
            score = float(check(job))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except RefusedError as error:
        return {"error": str(error)}
    except (Exception, OutOfTime):
        return {"score": None}
    return {"score": score if math.isfinite(score) else None}


def _interrupt(signum: int, frame: Any) -> None:
    raise OutOfTime


if __name__ == "__main__":
    main(sys.argv[1])

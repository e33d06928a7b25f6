"""The confinement that this machine has: bubblewrap where it works, else Landlock, else limits alone."""

from __future__ import annotations

import os
import socket
from functools import cache

from curro.errors import ConfigError
from curro.reward.sandbox import bubblewrap, landlock
from curro.reward.sandbox.confinement import BUBBLEWRAP, LANDLOCK, LIMITS, SANDBOX, Confinement
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.run import run

_WITHOUT_UID = (
    "running as root, a program's number of processes cannot be limited without bubblewrap or Landlock "
    "({why}): install bubblewrap (apt install bubblewrap), or train as another user"
)
_TRIAL = """
import socket
def is_closed(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
    return False
print(is_closed(open, {file!r}), is_closed(lambda: socket.create_connection(("127.0.0.1", {port}), 5)))
"""


@cache
def find_confinement(sandbox: str = "auto") -> Confinement:
    """The confinement that this machine has.

    Args:
        sandbox: "auto"; "required", which takes nothing that leaves files or network open; or "none".

    Raises:
        ConfigError: a confinement is required and none works here (the message says why), or without one
            root's programs could not be limited.
    """
    if sandbox not in SANDBOX:
        raise ConfigError(f"sandbox is {', '.join(SANDBOX)}, not {sandbox!r}")
    why = "they were not asked for"
    if sandbox != "none":
        no_bubblewrap = bubblewrap.why_not()
        if not no_bubblewrap:
            return BUBBLEWRAP
        no_landlock = landlock.why_not() or _trial(LANDLOCK)
        if not no_landlock:
            return LANDLOCK
        why = f"bubblewrap: {no_bubblewrap}; Landlock: {no_landlock}"
    if sandbox == "required":
        raise ConfigError(f"sandbox=required: neither bubblewrap nor Landlock works here: {why}")
    if os.getuid() == 0:
        raise ConfigError(_WITHOUT_UID.format(why=why))
    return LIMITS


def _trial(confinement: Confinement) -> str:
    """What is open to a program in this confinement that should not be; "" where nothing is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        trial = _TRIAL.format(file=__file__, port=server.getsockname()[1])
        try:
            done = run(trial, confinement, Limits(seconds=30.0))
        except OSError as error:
            return str(error)
    if done.output == b"True True\n":
        return ""
    if done.status:
        return f"a trial ended with status {done.status}"
    return f"a trial could open a file or a connection: {done.output!r:.80}"

"""How a program is kept from the network and the files."""

from __future__ import annotations

import errno
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curro.reward.sandbox import landlock
from curro.reward.sandbox.bubblewrap import arguments
from curro.reward.sandbox.limits import Limits
from curro.reward.sandbox.system_calls import filter_program
from curro.reward.workers.forks import in_forked_processes

SANDBOX = ("auto", "required", "none")
"""What can be asked for: the best there is; an error where files or network would stay open; limits alone."""

_CONFINE = (Path(__file__).parent / "inside" / "confine.py").read_text()

_USERS = range(60706, 61184)
"""Numbers of users that no distribution gives out."""

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
"""All that a program sees of it: the trainer's own holds keys of others."""


@dataclass(frozen=True)
class Confinement:
    """How programs are confined.

    Attributes:
        name: "bubblewrap", "landlock", or "limits": time, memory, threads, output and signals to others, but
            files and network open. Without bubblewrap a program starts threads and no processes.
        sentence: for a person.
    """

    name: str
    sentence: str

    @property
    def has_folder(self) -> bool:
        """Whether a program may write to /tmp."""
        return self.name != "landlock"

    def command(self, limits: Limits, packages: bool, filter_file: int) -> list[str]:
        """What stands before the interpreter's own command."""
        if self.name != "bubblewrap":
            return []
        return [*arguments(limits, packages), "--seccomp", str(filter_file), "--"]

    def filter(self) -> bytes:
        """The system calls that a program may make."""
        if self.name == "bubblewrap":
            return filter_program(folder=True, network=True, processes=True)
        is_open = self.name == "limits"
        return filter_program(folder=is_open, network=is_open)

    @property
    def counts_by_user(self) -> bool:
        """Whether the kernel can count a program's processes, which it does by user.

        Root's programs have users of their own, and bubblewrap's have a user namespace; an ordinary user's
        share him with the trainer and all else that he does. They start threads alone, whose number is
        looked at as that of bytes is.
        """
        return self.name == "bubblewrap" or not os.getuid()

    def inside(self, packages: bool, hidden: bool) -> dict[str, Any] | None:
        """What the process applies to itself before the program; None where it need not.

        Args:
            hidden: other processes of the same user shall not read its memory and open files.
        """
        if self.name == "bubblewrap":
            return None
        rules = landlock.rules_inside(packages) if self.name == "landlock" else {}
        return {"source": _CONFINE, "filter": self.filter(), "hidden": hidden, **rules}


class LentUser:
    """A user that no other program on this machine has meanwhile; `number` 0: the program stays who it is.

    Root's programs become such users, because the kernel counts processes by user. Whoever has bound the
    socket of a user's name has the user, and the kernel frees the name with the last process that holds the
    socket, however that ends. The names are in no file system; containers with a network of their own have
    names of their own.

    Args:
        seconds: how long to wait where all users are lent.

    Raises:
        OSError: all were lent all that time, or this process may open no more files.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.number, self._socket = 0, None
        if os.getuid():
            return
        self._socket = socket.socket(socket.AF_UNIX)
        over = time.monotonic() + seconds
        first = 17 * os.getpid()  # so that processes that start one after the other seldom try the same ones
        while not self.number:
            for i in range(len(_USERS)):
                number = _USERS[(first + i) % len(_USERS)]
                if self._binds(number):
                    self.number = number
                    _lent.add(self)
                    return
            if time.monotonic() >= over:
                self.give_back()
                raise BlockingIOError(f"{len(_USERS)} programs run on this machine")
            time.sleep(0.05)

    def _binds(self, number: int) -> bool:
        assert self._socket is not None
        try:
            self._socket.bind(f"\0curro-user-{number}")
        except OSError as error:
            return error.errno != errno.EADDRINUSE  # where there are no such names, users are lent unnamed
        return True

    def give_back(self) -> None:
        """Let another program have the user."""
        if self._socket is not None:
            self._socket.close()


_lent = in_forked_processes(LentUser.give_back)  # else they would keep the users from everybody


BUBBLEWRAP = Confinement(
    "bubblewrap",
    "programs run in bubblewrap: no network, no files but Python's own, and limits on time, memory, "
    "processes, files and output",
)
LANDLOCK = Confinement(
    "landlock",
    "programs run under Landlock and a filter of system calls: no network, no files but Python's own and "
    "none to write to, no processes beside them, and limits on time, memory, threads and output",
)
LIMITS = Confinement(
    "limits",
    "programs run with limits on time, memory, threads and output alone: they have your rights to the "
    "network and to all files, and can read the tests and the memory of your other processes; install "
    "bubblewrap to close both",
)

"""How a program is kept from the network and the files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from curro.reward.sandbox import landlock
from curro.reward.sandbox.bubblewrap import arguments
from curro.reward.sandbox.limits import Limits

SANDBOX = ("auto", "required", "none")
"""What can be asked for: the best there is; an error where files or network would stay open; limits alone."""

_UIDS = range(60706, 61184)
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
        name: "bubblewrap", "landlock", or "limits": time, memory, processes and output, but files and network
            open.
        sentence: for a person.
    """

    name: str
    sentence: str

    @property
    def has_folder(self) -> bool:
        """Whether a program may write to /tmp."""
        return self.name != "landlock"

    def command(self, limits: Limits, packages: bool) -> list[str]:
        """What stands before the interpreter's own command."""
        return arguments(limits, packages, tuple(ENVIRONMENT.items())) if self.name == "bubblewrap" else []

    def inside(self, packages: bool) -> dict[str, Any] | None:
        """What the process applies to itself before the program."""
        return landlock.inside(packages) if self.name == "landlock" else None

    @property
    def environment(self) -> dict[str, str] | None:
        """Of the process; None: the trainer's own, which bubblewrap empties."""
        return None if self.name == "bubblewrap" else ENVIRONMENT

    def uid(self, slot: int) -> int:
        """The user that the program of a slot becomes; 0: it stays who it is.

        RLIMIT_NPROC counts processes by user and does not bind root. Each slot has a user of its own.
        """
        return 0 if os.getuid() else _UIDS[(17 * os.getpid() + slot) % len(_UIDS)]


BUBBLEWRAP = Confinement(
    "bubblewrap",
    "programs run in bubblewrap: no network, no files but Python's own, and limits on time, memory, "
    "processes, files and output",
)
LANDLOCK = Confinement(
    "landlock",
    "programs run under Landlock and a filter of system calls: no network, no files but Python's own and "
    "none to write to, and limits on time, memory, processes and output",
)
LIMITS = Confinement(
    "limits",
    "programs run with limits on time, memory, processes and output alone: network and files are OPEN to "
    "them; install bubblewrap to close both",
)

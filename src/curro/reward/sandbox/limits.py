"""What a program may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from curro.core.errors import ConfigError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one program.

    Attributes:
        seconds: on the clock from where it begins, without the time in which a busy machine let it wait for a
            processor; and of processor time for each process.
        memory_mib: address space of each process, and the memory that all processes hold together.
        processes: processes and threads at the same time.
        files_mib: of all files in its only writable folder, /tmp, and of those in /dev/shm.
        output_kib: of what it writes to its standard output.
    """

    seconds: float = 6.0
    memory_mib: int = 1024
    processes: int = 16
    files_mib: int = 16
    output_kib: int = 1024

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not 0 < value < math.inf:
                raise ConfigError(f"{limit.name} is a number above 0, not {value}")

    def rlimits(self, *, count_by_user: bool) -> dict[str, int]:
        """By the names of the module `resource`.

        Args:
            count_by_user: limit the processes of the program's user, which must run nothing else.
        """
        return {
            "RLIMIT_CPU": math.ceil(self.seconds) + 1,
            "RLIMIT_AS": self.memory_mib * MIB,
            **({"RLIMIT_NPROC": self.processes} if count_by_user else {}),
            "RLIMIT_FSIZE": max(self.files_mib * MIB, self.output_kib * 1024),
            "RLIMIT_NOFILE": 64,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
            "RLIMIT_SIGPENDING": 1024,  # signals that wait, and timers: the kernel's memory
        }

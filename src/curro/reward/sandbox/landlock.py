"""Landlock and a filter of system calls: confinement without bubblewrap and without namespaces.

Landlock (Linux 6.2 and later, in containers too) closes files and TCP to a process and all that it starts,
and the filter closes what Landlock leaves open. Other than in bubblewrap, there is no folder that a program
may write to, it can tell whether a file exists, and it can send no signals.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from curro.reward.sandbox.bubblewrap import package_folders, readable

_TABLE = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296
70, open 2 -, openat 257 56, close 3 57, close_range 436 436, lseek 8 62, stat 4 -, fstat 5 80, lstat 6 -,
newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -,
readlinkat 267 78, getcwd 79 17, chdir 80 49, fchdir 81 50, getdents64 217 61, dup 32 23, dup2 33 -, dup3
292 24, pipe 22 -, pipe2 293 59, flock 73 32, ftruncate 77 46, fsync 74 82, fdatasync 75 83, fadvise64 221
223, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19, timerfd_create 283 85, timerfd_settime 286 86,
timerfd_gettime 287 87, socketpair 53 199, recvfrom 45 207, shutdown 48 210, getsockopt 55 209, setsockopt
54 208, getsockname 51 204, mmap 9 222, mprotect 10 226, munmap 11 215, mremap 25 216, madvise 28 233, brk
12 214, futex 202 98, rseq 334 293, set_robust_list 273 99, set_tid_address 218 96, arch_prctl 158 -,
membarrier 324 283, fork 57 -, vfork 58 -, execve 59 221, exit 60 93, exit_group 231 94, wait4 61 260,
waitid 247 95, getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104
176, getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158, getpgid 121 155, getpgrp 111
-, getsid 124 156, uname 63 160, sysinfo 99 179, getrlimit 97 163, setrlimit 160 164, getrusage 98 165,
times 100 153, time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep
230 115, nanosleep 35 101, getitimer 36 102, setitimer 38 103, alarm 37 -, rt_sigaction 13 134,
rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigsuspend 130 133, rt_sigtimedwait 128 137, rt_sigpending
127 136, sigaltstack 131 132, pause 34 -, restart_syscall 219 128, getrandom 318 278, sched_yield 24 124,
sched_getaffinity 204 123, getcpu 309 168, umask 95 166, sendfile 40 71
"""
"""Name, number on x86_64, number on aarch64."""

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's names of machines (AUDIT_ARCH)."""

_SPECIAL = {
    "clone": (56, 220), "clone3": (435, 435), "fcntl": (72, 25), "ioctl": (16, 29), "prlimit64": (302, 261),
    "sendto": (44, 206),
}  # fmt: skip
_NEW_PARENT_OR_NAMESPACE = 0x7E028000
"""Flags of `clone`: CLONE_NEW..., and CLONE_PARENT, which makes a brother of a child."""
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
"""Copies, flags and locks of a file; not F_SETOWN and F_SETSIG, which send signals."""
_IOCTL = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""

_LOAD, _EQUAL, _GREATER, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def filter_program() -> bytes | None:
    """Instructions, 8 bytes each (`struct sock_filter`); None on a machine whose calls are not known."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return None
    column = list(_MACHINES).index(machine)
    numbers = [one.split()[1 + column] for one in _TABLE.replace("\n", " ").split(",")]
    special = {name: found[column] for name, found in _SPECIAL.items()}
    refused = _ERROR | errno.EPERM
    found = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _MACHINES[machine]), (_RETURN, 0, 0, _KILL)]
    # calls of the x32 interface have the numbers of others, and a bit
    found += [(_LOAD, 0, 0, 0), (_GREATER, 0, 1, 0x40000000), (_RETURN, 0, 0, refused)]
    for number in numbers:
        if number != "-":
            found += [(_EQUAL, 0, 1, int(number)), (_RETURN, 0, 0, _ALLOW)]
    found += [(_EQUAL, 0, 1, special["clone3"]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    found += _if(
        special["clone"], 0, [(_BITS, 0, 1, _NEW_PARENT_OR_NAMESPACE), (_RETURN, 0, 0, refused)], _ALLOW
    )
    for name, argument, values in (("fcntl", 1, _FCNTL), ("ioctl", 1, _IOCTL), ("prlimit64", 0, (0,))):
        allowed = [line for value in values for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
        found += _if(special[name], argument, allowed, refused)
    # without an address, both halves of its pointer 0
    nowhere = [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, refused), (_LOAD, 0, 0, 16 + 8 * 4 + 4)]
    nowhere += [(_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW)]
    found += _if(special["sendto"], 4, nowhere, refused)
    found.append((_RETURN, 0, 0, refused))
    return b"".join(struct.pack("HBBI", *one) for one in found)


Instruction = tuple[int, int, int, int]


def _if(number: int, argument: int, then: Sequence[Instruction], otherwise: int) -> list[Instruction]:
    """For the call of this number: load the lower half of an argument, `then`, and return `otherwise`."""
    block = [(_LOAD, 0, 0, 16 + 8 * argument), *then, (_RETURN, 0, 0, otherwise)]
    return [(_EQUAL, 0, len(block), number), *block]


_LEAST = 3
"""The version of Landlock that refuses to cut files short."""
_FILES, _NAMES = 1 << 0 | 1 << 2, 1 << 3
"""Rights to execute and read a file, and to list a folder."""
_WRITE = 1 << 1
_INSIDE = Path(__file__).with_name("inside_landlock.py").read_text()


def version() -> int:
    """That of the kernel's Landlock; 0 without it."""
    create_ruleset, ask_version = 444, 1
    return max(0, ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), ask_version))


def why_not() -> str:
    """What the machine lacks; "" where there may be a trial."""
    if sys.platform != "linux" or filter_program() is None:
        return "its system calls are not known here"
    found = version()
    if found < _LEAST:
        return f"the kernel has version {found} of Landlock, not {_LEAST} (Linux 6.2)"
    return ""


@cache
def inside(packages: bool) -> dict[str, Any]:
    """What the program's process applies to itself, by inside_landlock.py."""
    rules: list[tuple[str, int]] = []
    hidden = set() if packages else {os.path.realpath(folder) for folder in package_folders()}
    places = [*readable(packages), "/lib", "/lib64"]
    for place in dict.fromkeys(map(os.path.realpath, filter(os.path.exists, places))):
        if os.path.isdir(place):
            rules.append((place, _NAMES))
        rules += [(path, _FILES) for path in _without(place, hidden)]
    rules += [("/dev/null", _FILES | _WRITE), ("/dev/zero", _FILES), ("/dev/urandom", _FILES)]
    # where other users cannot enter the interpreter's folder, root's program keeps the right to read
    enter = all(os.stat(folder).st_mode & 1 for folder in Path(os.path.realpath(sys.executable)).parents)
    told = {"rules": rules, "filter": filter_program(), "version": version(), "keep": not enter}
    return {"source": _INSIDE} | told


def _without(place: str, hidden: set[str]) -> Iterator[str]:
    """The place, or where something in it is hidden, all else in it."""
    if place in hidden:
        return
    if not any(one.startswith(place + "/") for one in hidden):
        yield place
        return
    with os.scandir(place) as entries:
        for entry in entries:
            if not entry.is_symlink():  # what it leads to has a rule of its own, if it may be read
                yield from _without(entry.path, hidden)

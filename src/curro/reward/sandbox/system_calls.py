"""A filter of system calls: a list of what a program may make.

What is not listed is refused with EPERM. So a program makes no namespaces, mounts nothing, traces none, and
keeps no data in memory that its limits do not count (memory files, memory that processes share and that stays
whole while a page of it is mapped, System V's shared memory, io_uring).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence
from functools import cache

_TABLE = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296
70, open 2 -, openat 257 56, close 3 57, close_range 436 436, lseek 8 62, stat 4 -, fstat 5 80, lstat 6 -,
newfstatat 262 79, statx 332 291, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -,
readlinkat 267 78, getcwd 79 17, chdir 80 49, fchdir 81 50, getdents64 217 61, dup 32 23, dup2 33 -, dup3
292 24, pipe 22 -, pipe2 293 59, ftruncate 77 46, fsync 74 82, fdatasync 75 83, fadvise64 221
223, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, eventfd2 290 19,
timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87,
recvfrom 45 207, shutdown 48 210, getsockopt 55 209,
getsockname 51 204, mprotect 10 226, munmap 11 215, mremap 25 216, madvise 28 233, brk
12 214, futex 202 98, rseq 334 293, set_robust_list 273 99, set_tid_address 218 96, arch_prctl 158 -,
membarrier 324 283, execve 59 221, exit 60 93, exit_group 231 94, wait4 61 260,
waitid 247 95, getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104
176, getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158, getpgid 121 155, getpgrp 111
-, getsid 124 156, uname 63 160, sysinfo 99 179, getrlimit 97 163, setrlimit 160 164, getrusage 98 165,
times 100 153, time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep
230 115, nanosleep 35 101, getitimer 36 102, setitimer 38 103, alarm 37 -, rt_sigaction 13 134,
rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigsuspend 130 133, rt_sigtimedwait 128 137, rt_sigpending
127 136, sigaltstack 131 132, pause 34 -, restart_syscall 219 128, getrandom 318 278, sched_yield 24 124,
sched_getaffinity 204 123, getcpu 309 168, umask 95 166, sendfile 40 71
"""
"""What every program may call: name, number on x86_64, number on aarch64. None names a process or a path that
could be written to."""

_FOLDER_TABLE = """
creat 85 -, mkdir 83 -, mkdirat 258 34, mknod 133 -, mknodat 259 33, rmdir 84 -, unlink 87 -, unlinkat 263 35,
rename 82 -, renameat 264 38, renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36,
chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54, truncate 76
45, fallocate 285 47, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88, statfs 137 43, fstatfs 138
44, copy_file_range 326 285, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10,
listxattr 194 11, llistxattr 195 12, flistxattr 196 13,
flock 73 32
"""
"""What a program needs that has a folder to write to.

Extended attributes can be read and not set, and no folder is watched: the kernel keeps 64 KB of an access
list, and 16,384 events of each watcher, which no limit counts.
"""

_NETWORK_TABLE = """
connect 42 203, accept 43 202, accept4 288 242, bind 49 200, listen 50 201, getpeername 52 205,
recvmsg 47 212, recvmmsg 299 243
"""

_PROCESS_TABLE = """
fork 57 -, vfork 58 -, kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138,
pidfd_open 434 434, pidfd_send_signal 424 424, signalfd 282 -, signalfd4 289 74, setpgid 109 154,
setsid 112 157, getpriority 140 140, sched_setaffinity 203 122, sched_getscheduler 145 120,
sched_getparam 143 121, setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143,
setresuid 117 147, setresgid 119 149, setgroups 116 159,
eventfd 284 -, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, timer_delete 226 111
"""
"""What makes and names other processes, and users, for a program that sees none but its own.

None makes it wait longer for a processor (setpriority, sched_setscheduler): its time stands still meanwhile.
"""

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""The kernel's names of machines (AUDIT_ARCH)."""

_SPECIAL = {
    "clone": (56, 220), "clone3": (435, 435), "fcntl": (72, 25), "ioctl": (16, 29), "prlimit64": (302, 261),
    "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269), "setsockopt": (54, 208),
    "mmap": (9, 222), "socket": (41, 198), "socketpair": (53, 199),
}  # fmt: skip
_NEW_PARENT_OR_NAMESPACE = 0x7E028000
"""Flags of `clone`: CLONE_NEW..., and CLONE_PARENT, which makes a brother of a child."""
_THREAD = 0x10000
"""CLONE_THREAD."""
_FCNTL, _LOCKS = (0, 1, 2, 3, 4, 1030), (5, 6, 7, 36, 37, 38)
"""Copies and flags of a file; with a folder also locks, which databases take and no limit counts. F_SETOWN
and F_SETSIG, which send signals, are refused."""
_IOCTL = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""

_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
"""Flags of `mmap`. Both together make a file in memory that no limit counts."""

_BUFFERS = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF, and those with FORCE: what waits in a socket counts for no program."""

_PAIRS = (1, 0x80001, 0x801, 0x80801)
"""SOCK_STREAM, with SOCK_CLOEXEC and SOCK_NONBLOCK. One socket of datagrams keeps what many have sent."""

_END_OF_RECORD = 0x80
"""MSG_EOR, which keeps each byte that is sent in a buffer of its own."""

_FAMILIES, _PROTOCOLS = (2, 10), range(18)
"""Sockets that may be opened: AF_INET and AF_INET6, up to UDP. Others keep data that nobody counts: a closed
client's data wait in the backlog of a UNIX listener."""

_LOAD, _EQUAL, _GREATER, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


@cache
def filter_program(*, folder: bool = False, network: bool = False, processes: bool = False) -> bytes:
    """Instructions, 8 bytes each (`struct sock_filter`), for a machine of `MACHINES`.

    Args:
        folder: there is a folder to write to, or other means guard what is written elsewhere.
        network: sockets are closed by other means, or open on purpose.
        processes: the program may start processes, of which it sees none but its own, and send them signals;
            else it starts threads alone.
    """
    machine = platform.machine()
    column = list(MACHINES).index(machine)
    tables = [_TABLE, _FOLDER_TABLE * folder, _NETWORK_TABLE * network, _PROCESS_TABLE * processes]
    rows = [row.split() for table in tables if table for row in table.replace("\n", " ").split(",")]
    special = {name: numbers[column] for name, numbers in _SPECIAL.items()}
    refused = _ERROR | errno.EPERM
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, MACHINES[machine]), (_RETURN, 0, 0, _KILL)]
    # calls of the x32 interface have the numbers of others, and a bit
    lines += [(_LOAD, 0, 0, 0), (_GREATER, 0, 1, 0x40000000), (_RETURN, 0, 0, refused)]
    for _, *numbers in rows:
        if numbers[column] != "-":
            lines += [(_EQUAL, 0, 1, int(numbers[column])), (_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 1, special["clone3"]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    flags = [(_BITS, 0, 1, _NEW_PARENT_OR_NAMESPACE), (_RETURN, 0, 0, refused)]
    flags += [(_BITS, 0, 1, _THREAD), (_RETURN, 0, 0, _ALLOW)]
    lines += _if(special["clone"], 0, flags, _ALLOW if processes else refused)
    fcntl = _FCNTL + _LOCKS * folder
    limited = (("fcntl", 1, fcntl), ("ioctl", 1, _IOCTL), ("prlimit64", 0, (0,)), ("socketpair", 1, _PAIRS))
    for name, argument, values in limited:
        allowed = [line for value in values for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
        lines += _if(special[name], argument, allowed, refused)
    larger = [line for value in _BUFFERS for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, refused))]
    lines += _if(special["setsockopt"], 2, larger, _ALLOW)
    shared = [(_BITS, 0, 2, _MAP_SHARED), (_BITS, 0, 1, _MAP_ANONYMOUS), (_RETURN, 0, 0, refused)]
    lines += _if(special["mmap"], 3, shared, _ALLOW)
    families = [line for value in _FAMILIES for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    protocols = [(_GREATER, 0, 1, len(_PROTOCOLS)), (_RETURN, 0, 0, refused), (_LOAD, 0, 0, 16)]
    if network:
        lines += _if(special["socket"], 2, [*protocols, *families], refused)
        records = [(_BITS, 0, 1, _END_OF_RECORD), (_RETURN, 0, 0, refused)]
        for name, argument in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            lines += _if(special[name], argument, records, _ALLOW)
    else:  # without an address, both halves of its pointer 0
        nowhere = [(_EQUAL, 1, 0, 0), (_RETURN, 0, 0, refused), (_LOAD, 0, 0, 16 + 8 * 4 + 4)]
        nowhere += [(_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW)]
        lines += _if(special["sendto"], 4, nowhere, refused)
    lines.append((_RETURN, 0, 0, refused))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


Instruction = tuple[int, int, int, int]


def _if(number: int, argument: int, then: Sequence[Instruction], otherwise: int) -> list[Instruction]:
    """For the call of this number: load the lower half of an argument, `then`, and return `otherwise`."""
    block = [(_LOAD, 0, 0, 16 + 8 * argument), *then, (_RETURN, 0, 0, otherwise)]
    return [(_EQUAL, 0, len(block), number), *block]

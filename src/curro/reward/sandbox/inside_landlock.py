# Closes files, network and all system calls but those of a list to the process that executes it, for good.
# Executed by inside.py: `supervise` first, `before` while the process is still who it was, `after` when it is
# who it will be.
import ctypes
import os
import signal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PARENT_DEATH, _REAPER, _KEEP_CAPS, _NO_NEW_PRIVS, _SECCOMP, _FILTER = 1, 36, 8, 38, 22, 2
_READ_ANYTHING = (2, 1)  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE: Landlock says what of it


def _call(number: int, *arguments: "Any") -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock")
    return result


def supervise() -> None:
    """Go on in a child, with a group of its own that it cannot leave; this process ends what is left of it.

    A process whose parent is gone becomes this one's child, so that it is not left to the system's first
    process, which in a container may never ask how it ended, and its user would run out of processes.
    """
    _libc.prctl(_REAPER, 1, 0, 0, 0)
    _libc.prctl(_PARENT_DEATH, signal.SIGTERM, 0, 0, 0)
    awaited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        return
    try:
        os.setpgid(child, child)
        ask = os.WEXITED | os.WNOHANG | os.WNOWAIT  # while it is not reaped, its number is its own
        while signal.sigwait(awaited) == signal.SIGCHLD and not os.waitid(os.P_PID, child, ask):
            pass
    finally:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        try:
            while True:
                os.wait()
        except ChildProcessError:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def before(told: "dict[str, Any]") -> int:
    """The rules, as an open file."""
    version = told["version"]
    files = (1 << (16 if version >= 5 else 15)) - 1
    handled = struct.pack("=QQQ", files, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _call(_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    for path, rights in told["rules"]:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            rights &= ~(1 << 3)
        _call(_ADD, rules, 1, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    if told["keep"]:
        _libc.prctl(_KEEP_CAPS, 1, 0, 0, 0)
    return rules


def after(told: "dict[str, Any]", rules: int) -> None:
    if told["keep"]:
        for right in _READ_ANYTHING:
            rights = struct.pack("=6I", 1 << right, 1 << right, 0, 0, 0, 0)
            if _libc.capset(struct.pack("=Ii", 0x20080522, 0), rights) == 0:
                break
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no new privileges")
    _call(_RESTRICT, rules, 0)
    os.close(rules)
    instructions = ctypes.create_string_buffer(told["filter"], len(told["filter"]))
    program = struct.pack("HxxxxxxP", len(told["filter"]) // 8, ctypes.addressof(instructions))
    if _libc.prctl(_SECCOMP, _FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "a filter of system calls")

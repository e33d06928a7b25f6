# Closes files, network and all system calls outside a list to the process that executes it, for good.
# Executed by begin.py: `supervise` first, `before` while the process is still who it was, `after` when it is
# who it will be. What is not in `told` is not applied.
import ctypes
import os
import select
import signal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE, _ADD, _RESTRICT, _TAKE_FILE = 444, 445, 446, 438  # Landlock's three, and pidfd_getfd
_PARENT_DEATH, _REAPER, _KEEP_CAPS, _NO_NEW_PRIVS, _DUMPABLE = 1, 36, 8, 38, 4
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _ANSWER, _CONTINUE, _EAGAIN = 0xC0502100, 0xC0182101, 1, 11
_READ_ANYTHING = (2, 1)  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE: Landlock says what of it


def _call(number: int, *arguments: "Any") -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "a system call of the confinement")
    return result


def supervise(settings: "dict[str, Any]") -> None:
    """Go on in a child, with a group of its own that it cannot leave; this process ends what is left of it.

    A process whose parent is gone becomes this one's child, so that it is not left to the system's first
    process, which in a container may never ask how it ended, and its user would run out of processes.
    """
    _libc.prctl(_REAPER, 1, 0, 0, 0)
    _libc.prctl(_PARENT_DEATH, signal.SIGTERM, 0, 0, 0)
    awaited = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    if settings["processes"]:
        settings["from_supervisor"], to_program = os.pipe()
        from_program, settings["to_supervisor"] = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        if settings["processes"]:
            os.close(to_program)
            os.close(from_program)
        return
    try:
        os.setpgid(child, child)
        listener = None
        if settings["processes"]:
            os.close(settings["from_supervisor"])
            os.close(settings["to_supervisor"])
            listener = _take_listener(child, from_program, to_program)
        _wait(child, awaited, listener, settings["processes"])
    finally:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        try:
            while True:
                os.wait()
        except ChildProcessError:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _take_listener(child: int, from_program: int, to_program: int) -> "int | None":
    """The open file by which the filter asks; None where the child ended before it had one."""
    number = os.read(from_program, 4)
    if len(number) < 4:
        return None
    process = os.pidfd_open(child)
    listener = _call(_TAKE_FILE, process, struct.unpack("i", number)[0], 0)
    os.close(process)
    os.write(to_program, b"1")
    return listener


def _wait(child: int, awaited: "set[signal.Signals]", listener: "int | None", most: int) -> None:
    """Wait for the child's end or for SIGTERM, and answer the filter meanwhile."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for awaited_signal in awaited:
        signal.signal(awaited_signal, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
    waiting = select.poll()
    waiting.register(woken, select.POLLIN)
    if listener is not None:
        waiting.register(listener, select.POLLIN)
    while not _has_ended(child):
        for number, event in waiting.poll():
            if number == woken:
                if signal.SIGTERM in os.read(woken, 4096):
                    return
            elif event & select.POLLIN:
                _answer(number, most)
            else:
                waiting.unregister(number)  # all that could ask has ended


def _has_ended(child: int) -> bool:
    """Whether the child has ended; it is not reaped, so that its number stays its own, but all others are."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            return ended is not None
        os.waitpid(ended.si_pid, 0)


def _answer(listener: int, most: int) -> None:
    """Let a process or thread be made, or refuse it if there are as many as there may be."""
    request = ctypes.create_string_buffer(80)
    if _libc.ioctl(listener, ctypes.c_ulong(_RECEIVE), request) < 0:
        return  # who asked has ended
    is_full = _tasks(os.getpid()) >= most
    error, flags = (-_EAGAIN, 0) if is_full else (0, _CONTINUE)
    answer = struct.pack("=QqiI", struct.unpack_from("=Q", request)[0], 0, error, flags)
    _libc.ioctl(listener, ctypes.c_ulong(_ANSWER), answer)


def _tasks(process: int) -> int:
    """The threads of all processes below this one; one that has just ended hides no other."""
    count = 0
    for thread in _listed(f"/proc/{process}/task"):
        try:
            with open(f"/proc/{process}/task/{thread}/children") as file:
                children = file.read().split()
        except OSError:
            continue
        for child in children:
            count += len(_listed(f"/proc/{child}/task")) + _tasks(int(child))
    return count


def _listed(folder: str) -> "list[str]":
    try:
        return os.listdir(folder)
    except OSError:
        return []


def before(settings: "dict[str, Any]") -> int:
    """The rules of Landlock, as an open file; -1 without them."""
    if "rules" not in settings:
        return -1
    version = settings["version"]
    files = (1 << (16 if version >= 5 else 15)) - 1
    handled = struct.pack("=QQQ", files, 3, 3)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = _call(_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    for path, rights in settings["rules"]:
        try:
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            rights &= ~(1 << 3)
        _call(_ADD, rules, 1, struct.pack("=Qi", rights, file), 0)
        os.close(file)
    if settings["keep"]:
        _libc.prctl(_KEEP_CAPS, 1, 0, 0, 0)
    return rules


def after(settings: "dict[str, Any]", rules: int) -> None:
    if settings.get("keep"):
        for capability in _READ_ANYTHING:
            rights = struct.pack("=6I", 1 << capability, 1 << capability, 0, 0, 0, 0)
            if _libc.capset(struct.pack("=Ii", 0x20080522, 0), rights) == 0:
                break
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no new privileges")
    if rules >= 0:
        _call(_RESTRICT, rules, 0)
        os.close(rules)
    if settings["filter"] is not None:
        _filter(settings)
    if settings["hidden"]:
        _libc.prctl(_DUMPABLE, 0, 0, 0, 0)


def _filter(settings: "dict[str, Any]") -> None:
    instructions = ctypes.create_string_buffer(settings["filter"], len(settings["filter"]))
    program = struct.pack("HxxxxxxP", len(settings["filter"]) // 8, ctypes.addressof(instructions))
    flags = _NEW_LISTENER if settings["processes"] else 0
    listener = _call(_SECCOMP[os.uname().machine], _SET_FILTER, flags, program)
    if settings["processes"]:
        os.write(settings["to_supervisor"], struct.pack("i", listener))
        os.read(settings["from_supervisor"], 1)
        for number in (listener, settings["to_supervisor"], settings["from_supervisor"]):
            os.close(number)

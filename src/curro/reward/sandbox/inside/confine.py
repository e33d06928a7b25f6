# Closes files, network and all system calls outside a list to the process that executes it, for good.
# Executed by begin.py: `before` while the process is still who it was, `after` when it is who it will be.
import ctypes
import os
import signal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's three
_PARENT_DEATH, _KEEP_CAPS, _NO_NEW_PRIVS, _DUMPABLE = 1, 8, 38, 4
_SECCOMP, _SET_FILTER = {"x86_64": 317, "aarch64": 277}, 1
_READ_ANYTHING = (2, 1)  # CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE: Landlock says what of it


def _call(number: int, *arguments: "Any") -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "a system call of the confinement")
    return result


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
    _libc.prctl(_PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    if _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no new privileges")
    if rules >= 0:
        _call(_RESTRICT, rules, 0)
        os.close(rules)
    if settings["hidden"]:
        _libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    instructions = ctypes.create_string_buffer(settings["filter"], len(settings["filter"]))
    program = struct.pack("HxxxxxxP", len(settings["filter"]) // 8, ctypes.addressof(instructions))
    _call(_SECCOMP[os.uname().machine], _SET_FILTER, 0, program)

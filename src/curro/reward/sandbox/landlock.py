"""Landlock: confinement without bubblewrap and without namespaces.

Landlock (Linux 6.2 and later, in containers too) closes files and TCP to a process and all that it starts,
and the filter of system calls closes what Landlock leaves open. Other than in bubblewrap, there is no folder
that a program may write to, it can tell whether a file exists, and it starts no processes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from curro.reward.sandbox.bubblewrap import package_folders, readable

_LEAST = 3
"""The version of Landlock that refuses to cut files short."""
_FILES, _NAMES = 1 << 0 | 1 << 2, 1 << 3
"""Rights to execute and read a file, and to list a folder."""
_WRITE = 1 << 1


def version() -> int:
    """That of the kernel's Landlock; 0 without it."""
    create_ruleset, ask_version = 444, 1
    return max(0, ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), ask_version))


def why_not() -> str:
    """What the machine lacks; "" if there may be a trial."""
    if sys.platform != "linux":
        return "this is not Linux"
    kernel_version = version()
    if kernel_version < _LEAST:
        return f"the kernel has version {kernel_version} of Landlock, not {_LEAST} (Linux 6.2)"
    return ""


@cache
def rules_inside(packages: bool) -> dict[str, Any]:
    """What the program's process applies to itself, by inside/confine.py."""
    rules: list[tuple[str, int]] = []
    hidden = set() if packages else {os.path.realpath(folder) for folder in package_folders()}
    roots = [*readable(packages), "/lib", "/lib64"]
    for root in dict.fromkeys(map(os.path.realpath, filter(os.path.exists, roots))):
        if os.path.isdir(root):
            rules.append((root, _NAMES))
        rules += [(path, _FILES) for path in _without(root, hidden)]
    rules += [("/dev/null", _FILES | _WRITE), ("/dev/zero", _FILES), ("/dev/urandom", _FILES)]
    # where other users cannot enter the interpreter's folder, root's program keeps the right to read
    enter = all(os.stat(folder).st_mode & 1 for folder in Path(os.path.realpath(sys.executable)).parents)
    return {"rules": rules, "version": version(), "keep": not enter}


def _without(path: str, hidden: set[str]) -> Iterator[str]:
    """The place, or where something in it is hidden, all else in it."""
    if path in hidden:
        return
    if not any(folder.startswith(path + "/") for folder in hidden):
        yield path
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_symlink():  # what it leads to has a rule of its own, if it may be read
                yield from _without(entry.path, hidden)

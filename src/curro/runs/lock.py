"""A folder for one process at a time: the operating system's lock on a file that names its owner."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO
from weakref import WeakValueDictionary

from curro.core.errors import CurroError
from curro.core.files import open_unlinked

NAME = ".lock"

_held: set[int] = set()
"""The file descriptors of the locks that this process holds."""


class LockedError(CurroError):
    """A folder that another process is writing to."""


@contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder.

    The operating system takes the lock away from a process that ends, however it ends, so a lock that a
    dead process left is free. A child that the process forks does not hold it. On a file system without
    locks nothing is kept out. Whoever has the lock removes what ended processes left half-written
    (`curro.core.files.replacing`).
    """
    with open(folder / NAME, "a+b", opener=open_unlinked) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read(200).decode(errors="replace") or "another process"
            raise LockedError(
                f"{folder} is in use by {owner}: wait until it ends, or choose another folder"
            ) from None
        except OSError:
            yield
            return
        _held.add(file.fileno())
        _remove_parts_of_the_dead(folder)
        _write(file, f"process {os.getpid()} on {socket.gethostname()}")
        try:
            yield
        finally:
            _write(file, "")
            _held.discard(file.fileno())


class KeptFolder:
    """A folder that other processes are kept out of while anything in this one refers to this object."""


_kept: WeakValueDictionary[tuple[int, int], KeptFolder] = WeakValueDictionary()
"""By device and inode, so that a folder stays kept under another name."""


def keep_out_others(folder: Path) -> KeptFolder:
    """As `only_process`, if no block of code is the time of the writing; writers in one process share it.

    Raises:
        LockedError: another process is writing to the folder.
    """
    status = folder.stat()
    kept = _kept.get((status.st_dev, status.st_ino))
    if kept is None:
        lock = ExitStack()
        lock.enter_context(only_process(folder))
        kept = _kept[status.st_dev, status.st_ino] = KeptFolder()
        weakref.finalize(kept, lock.close)
    return kept


_PART = re.compile(r"\..+\.(\d{1,9})\.part")


def is_unused(folder: Path) -> bool:
    """Whether nothing is in a folder but what a process that was killed as it began may have left."""
    return all(path.name == NAME or _PART.fullmatch(path.name) for path in folder.iterdir())


def _remove_parts_of_the_dead(folder: Path) -> None:
    """Remove `.NAME.PID.part` of every process that runs no more, in a folder and those directly in it."""
    for path in (*folder.glob(".*.part"), *folder.glob("*/.*.part")):
        name = _PART.fullmatch(path.name)
        if name is not None and path.is_file() and not path.is_symlink() and not _runs(int(name[1])):
            path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write(file: BinaryIO, owner: str) -> None:
    file.truncate(0)
    file.write(owner.encode())
    file.flush()


def _let_go() -> None:
    """In a forked child: the lock belongs to an open file, which the child would keep open for its parent."""
    with open(os.devnull, "r+b") as nothing:
        for number in _held:
            os.dup2(nothing.fileno(), number, inheritable=False)
    _held.clear()
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)

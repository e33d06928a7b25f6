"""Files that are whole or not there, and files of folders that somebody else may have prepared."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

from curro.errors import ConfigError, RunError


def open_unlinked(path: str, flags: int) -> int:
    """An opener for `open` that writes through no symbolic link: it may point to a file of the user's.

    Raises:
        RunError: the path is a link.
    """
    try:
        return os.open(path, flags | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise RunError(f"{path} is a link, and nothing is written through one: remove it") from error
        raise


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, if it is one: a device never ends, and a pipe may never begin.

    Raises:
        RunError: it is neither a file nor missing.
        FileNotFoundError: there is none.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError(f"{path} is no file but a folder, a device or a pipe: remove it")
    return os.fdopen(descriptor, "rb")


class replacing:
    """Hand out a temporary path whose file takes the target's place when all went well.

    Where the target is a link, the link is replaced, not what it points to.
    """

    def __init__(self, target: Path) -> None:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        self.target = target
        self.part = target.with_name(f".{target.name}.{os.getpid()}.part")

    def __enter__(self) -> Path:
        self.part.unlink(missing_ok=True)
        return self.part

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            if failed is None:
                with self.part.open("rb") as file:
                    os.fsync(file.fileno())
                os.replace(self.part, self.target)
        finally:
            self.part.unlink(missing_ok=True)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables and values of a file.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error

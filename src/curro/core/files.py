"""Files that are whole or not there, and files of folders from elsewhere."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from curro.core.errors import ConfigError, RunError

if TYPE_CHECKING:
    import pyarrow as pa


def open_unlinked(path: str, flags: int) -> int:
    """An opener for `open` that writes through no symbolic link: it may point to a file of the user's."""
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


def refuse_links(folder: Path) -> None:
    """Refuse a folder with links or devices anywhere in it: what is saved there would land elsewhere.

    The folder itself may be a link.
    """
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(inside, name)
            mode = os.lstat(path).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                what = "a link" if stat.S_ISLNK(mode) else "no file but a device, a pipe or a socket"
                raise RunError(f"{path} is {what}, and nothing is written through one: remove it")


def read_parquet(path: Path) -> pa.Table:
    """Read a table that curro wrote.

    Raises:
        RunError: the file is damaged, or is not a table that curro writes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_regular(path) as source:
        try:
            file = pq.ParquetFile(source, pre_buffer=False)
            for column in file.schema_arrow:
                if not (is_number(column.type) or str(column.type) in ("bool", "string", "large_string")):
                    raise RunError(
                        f"{path} is damaged: its column {column.name!r:.50} is of {column.type!s:.50}, "
                        "neither of numbers nor of texts"
                    )
            # in this thread alone: Arrow's threads free what they read of a Python file late, and abort a
            # process that ends meanwhile
            return file.read(use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise RunError(f"{path} is damaged: {error}") from error


def is_number(kind: pa.DataType) -> bool:
    """Whether a column holds numbers, or only values that are missing."""
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


class replacing:
    """Hand out a temporary path whose file takes the target's place when all went well.

    After a power cut the target is whole: as it was before, or, once this is left, as it became. Where the
    target is a link, the link is replaced, not what it points to.
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
                sync(self.part)
                os.replace(self.part, self.target)
                sync(self.target.parent)
        finally:
            self.part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until the disk has a file's bytes, or the names in a folder: neither keeps the other."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        if not path.is_dir():  # network file systems sync none, and one may be written but not read
            raise


def check_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be written, or that cannot be made; nothing is left behind."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be used ({error.strerror or error}): choose a folder in which you may write"
        ) from error


def read_toml(path: Path) -> dict[str, Any]:
    """The tables and values of a file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error

"""A state (nested dicts of arrays and plain values) in one file, written atomically, read without pickle."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from curro.errors import CheckpointError

_VALUES = "values.json"
_DAMAGED = (
    *(KeyError, ValueError, TypeError, OSError, EOFError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""What reading a file that is cut off, overwritten or of another kind raises."""


def save_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`: an interrupted save leaves the file that was there before.

    The file is a NumPy `.npz`: an entry per array, its place in the nested dict as the name, and
    one entry of JSON text for all other values.
    """
    target = Path(path)
    arrays: dict[str, np.ndarray] = {}
    values = _split(state, "", arrays)
    arrays[_VALUES] = np.frombuffer(json.dumps(values, default=_plain).encode(), dtype=np.uint8)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_state` wrote.

    Raises:
        CheckpointError: no such file, or a file that `save_state` did not write.
    """
    if not Path(path).is_file():
        raise CheckpointError(f"no saved curriculum at {path}")
    try:
        # opened here, because NumPy leaves a file open that is no archive
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            values = json.loads(file[_VALUES].tobytes())
            for name in file.files:
                if name != _VALUES:
                    *folders, leaf = name.split("/")
                    place = values
                    for folder in folders:
                        place = place[folder]
                    place[leaf] = file[name]
    except _DAMAGED as error:
        raise CheckpointError(f"{path} is not a saved curriculum, or is damaged: {error}") from error
    return values


def _split(state: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Move the arrays of `state` into `arrays`; what remains is JSON."""
    values: dict[str, Any] = {}
    for name, value in state.items():
        if "/" in name:
            raise CheckpointError(f"{name!r} cannot be saved: the names in a state have no '/'")
        if isinstance(value, dict):
            values[name] = _split(value, f"{prefix}{name}/", arrays)
        elif isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            values[name] = value
    return values


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's; nothing else than JSON can be saved."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state holds arrays, numbers, text, lists and dicts, not {type(value).__qualname__}")

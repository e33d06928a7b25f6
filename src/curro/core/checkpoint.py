"""A state (nested dicts of arrays and plain values) in one file, written atomically, read without pickle."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from curro.core.errors import CheckpointError
from curro.core.files import replacing


class Stateful:
    """What is saved with a curriculum: its attributes that `remembered` names.

    An attribute is saved under its name without the axes: `value_C` as "value". It is an array, a plain
    value, a generator of random numbers, or stateful itself.
    """

    remembered: tuple[str, ...] = ()

    def state_dict(self) -> Any:
        """What is remembered beside the prompt table: nested dicts of arrays and plain values."""
        return {_saved_name(name): _saved(getattr(self, name)) for name in self.remembered}

    def load_state_dict(self, state: Any) -> None:
        """Restore `state_dict`; the prompt table has been restored before, indexes are rebuilt from it."""
        for name in self.remembered:
            setattr(self, name, _restored(getattr(self, name), state[_saved_name(name)]))


def _saved_name(attribute: str) -> str:
    return re.sub("^_|_[A-Z0-9]+$", "", attribute)


def _saved(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, Stateful):
        return value.state_dict()
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _restored(value: Any, state: Any) -> Any:
    """The attribute that has this value, as it was saved."""
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    elif isinstance(value, Stateful):
        value.load_state_dict(state)
    else:
        return state.copy() if isinstance(state, np.ndarray | list) else state
    return value


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's; nothing else than JSON can be saved."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state holds arrays, numbers, text, lists and dicts, not {type(value).__qualname__}")


_VALUES = "values.json"


def save_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`: an interrupted save leaves the file that was there before.

    The file is a NumPy `.npz`: an entry for each array, named by its path in the nested dict, and one entry
    of JSON text for all other values.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part, part.open("wb") as file:
        _write(file, state)


def to_bytes(state: dict[str, Any]) -> bytes:
    """The bytes that `save_state` writes."""
    file = BytesIO()
    _write(file, state)
    return file.getvalue()


def _write(file: BinaryIO, state: dict[str, Any]) -> None:
    arrays: dict[str, np.ndarray] = {}
    values = _without_arrays(state, "", arrays)
    arrays[_VALUES] = np.frombuffer(json.dumps(values, default=plain).encode(), dtype=np.uint8)
    np.savez(file, allow_pickle=False, **arrays)


def _without_arrays(state: Mapping[str, Any], path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state without its arrays, which go to `arrays` by their paths: names with a "/" between them."""
    values: dict[str, Any] = {}
    for name, value in state.items():
        if "/" in name:
            raise CheckpointError(f"{name!r} cannot be saved: the names in a state have no '/'")
        if isinstance(value, dict):
            values[name] = _without_arrays(value, f"{path}{name}/", arrays)
        elif isinstance(value, np.ndarray):
            arrays[path + name] = value
        else:
            values[name] = value
    return values


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_state` wrote.

    Raises:
        CheckpointError: no such file, or a file that `save_state` did not write.
    """
    if not Path(path).is_file():
        raise CheckpointError(f"no saved curriculum at {path}")
    with Path(path).open("rb") as file:  # opened here, because NumPy leaves a file open that is no archive
        return _read(file, os.fstat(file.fileno()).st_size, f"{path} is not a saved curriculum")


def from_bytes(state: bytes, name: str) -> dict[str, Any]:
    """Read what `to_bytes` made; raises CheckpointError, which names them, for other bytes."""
    return _read(BytesIO(state), len(state), f"{name} is not a saved curriculum")


def _read(raw: BinaryIO, size: int, problem: str) -> dict[str, Any]:
    try:
        with np.load(raw, allow_pickle=False) as file:
            entries = file.zip.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("its entries are compressed, and a small file could fill the memory")
            if sum(entry.file_size for entry in entries) > size:
                raise ValueError("its entries share bytes, and a small file could fill the memory")
            values = json.loads(file[_VALUES].tobytes())
            for name in set(file.files) - {_VALUES}:
                *outer, leaf = name.split("/")
                inside = values
                for part in outer:
                    inside = inside[part]
                inside[leaf] = file[name]
            return values
    except Exception as error:  # whatever damaged bytes make of NumPy, zipfile and json
        # NumPy's advice for bytes that it does not know is to load them unsafely
        reason = "it is no archive of arrays" if "pickle" in str(error) else error
        raise CheckpointError(
            f"{problem}, or is damaged ({reason}): remove it, or use an earlier one"
        ) from error


def check_alike(saved: Any, here: Any, field: str = "state") -> None:
    """Compare types and array dimensions where names are the same; their owners check names and values."""
    if isinstance(here, Mapping) and isinstance(saved, Mapping):
        for name in here.keys() & saved.keys():
            check_alike(saved[name], here[name], f"{field}/{name}")
    elif _kind(saved) != _kind(here) and not (isinstance(here, float) and type(saved) is int):
        value = f"{saved.dtype}{saved.shape}" if isinstance(saved, np.ndarray) else f"{saved!r:.50}"
        raise CheckpointError(f"the checkpoint is damaged: {field} is {value}, not {_kind(here)}")


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with {value.ndim} dimensions"
    return "a number" if isinstance(value, float) else f"a value of type {type(value).__name__}"


def check_state(condition: Any, field: str, problem: str = "is not of any run") -> None:
    """Raise a CheckpointError that names the field and its problem unless the condition holds."""
    if not condition:
        raise CheckpointError(f"the checkpoint is damaged: {field} {problem}")


def check_prompt_numbers(prompts: np.ndarray, size: float, field: str) -> None:
    """Raise a CheckpointError unless all are numbers of prompts: whole ones from 0 to size - 1."""
    known = (prompts >= 0) & (prompts < size) & (prompts == np.floor(prompts))
    check_state(known.all(), field, "are not of the table")

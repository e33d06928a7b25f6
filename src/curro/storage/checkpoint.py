"""A state (nested dicts of arrays and plain values) in one file, written atomically, read without pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from curro.errors import CheckpointError
from curro.storage.atomic import replacing
from curro.storage.nested import Place, join, plain, split

_VALUES = "values.json"


def save_state(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`: an interrupted save leaves the file that was there before.

    The file is a NumPy `.npz`: an entry per array, its place in the nested dict as the name, and
    one entry of JSON text for all other values.
    """
    target = Path(path)
    values, found = split(state)
    arrays = {_name(place): array for place, array in found.items()}
    arrays[_VALUES] = np.frombuffer(json.dumps(values, default=plain).encode(), dtype=np.uint8)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


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
            return join(
                values, {tuple(name.split("/")): file[name] for name in file.files if name != _VALUES}
            )
    except Exception as error:  # whatever damaged bytes make of NumPy, zipfile and json
        raise CheckpointError(f"{path} is not a saved curriculum, or is damaged: {error}") from error


def _name(place: Place) -> str:
    for name in place:
        if "/" in name:
            raise CheckpointError(f"{name!r} cannot be saved: the names in a state have no '/'")
    return "/".join(place)

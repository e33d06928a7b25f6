"""A state (nested dicts of arrays and plain values) as one piece of bytes, read without pickle.

    4 bytes   the length of the head, little-endian
    head      JSON: `values`, the nested dict without its arrays, and `arrays`, a list of [path, type, shape]
    arrays    one after the other, in C order, little-endian

A path is a list of the names on the way to the array, from the outermost dict inwards; a type is NumPy's
short name ("<f8").
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import join, plain, split
from curro.core.errors import CheckpointError

_LENGTH = struct.Struct("<I")
_JSON = json.JSONEncoder(default=plain, separators=(",", ":"))
_NO_STATE = (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)
"""What reading bytes that are no state raises."""
MOST_ARRAYS = 10_000
"""Of a state: an empty one takes no bytes of its own, so a short frame could ask for millions."""

_TYPES = frozenset(np.dtype(name).newbyteorder("<").str for name in "?bBhHiIqQfd")


def encode(state: Mapping[str, Any]) -> bytes:
    """The bytes of a state.

    Raises:
        CheckpointError: an array that is not of numbers or booleans, or more than `MOST_ARRAYS`.
    """
    values, arrays = split(state)
    if len(arrays) > MOST_ARRAYS:
        raise CheckpointError(
            f"a state of {len(arrays)} arrays cannot be written: it has at most {MOST_ARRAYS}"
        )
    described, parts = [], []
    for path, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
        if little.dtype.str not in _TYPES:
            raise CheckpointError(f"{path!r} cannot be written: it is an array of {array.dtype}")
        described.append([path, little.dtype.str, little.shape])
        parts.append(little.tobytes())
    head = _JSON.encode({"values": values, "arrays": described}).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *parts))


def decode(frame: bytes) -> dict[str, Any]:
    """The state that `encode` was given.

    Raises:
        CheckpointError: bytes that `encode` did not make.
    """
    try:
        (length,) = _LENGTH.unpack_from(frame)
        start = _LENGTH.size + length
        head = json.loads(frame[_LENGTH.size : start])
        if len(head["arrays"]) > MOST_ARRAYS:
            raise ValueError(f"they have {len(head['arrays'])} arrays, and a state at most {MOST_ARRAYS}")
        arrays = {}
        for path, kind, shape in head["arrays"]:
            if kind not in _TYPES or not all(type(size) is int and size >= 0 for size in shape):
                raise ValueError(f"{path!r} is an array of {kind!r} and shape {shape}")
            count = math.prod(shape)
            array = np.frombuffer(frame, kind, count, start).reshape(shape).copy()
            arrays[tuple(path)] = array
            start += array.nbytes
        if start != len(frame):
            raise ValueError(f"{len(frame) - start} bytes are left over")
        if not isinstance(head["values"], dict):
            raise ValueError(f"the values are {type(head['values']).__name__}, not an object")
        return join(head["values"], arrays)
    except _NO_STATE as error:
        raise CheckpointError(f"these bytes are no state: {error}") from error

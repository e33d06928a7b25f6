"""What comes in is checked once, before anything changes, and an error names the id it is about."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
MAX_SIZE = 2**31 - 64
"""Slots are kept as int32."""


def _first_outside(values: NDArray[Any], low: float, high: float) -> int:
    """Position of the first value not in [low, high], NaN included; -1 if there is none."""
    outside = ~((values >= low) & (values <= high))
    return int(outside.argmax()) if outside.any() else -1


def check_size(size: int) -> int:
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"size must be between 1 and {MAX_SIZE}, not {size}")
    return int(size)


def check_ids(ids: ArrayLike, size: int) -> Ids:
    """`ids` as a flat int64 array, each in 0..size-1."""
    flat = np.ascontiguousarray(ids)
    if flat.dtype.kind not in "iu" and flat.size:
        raise TypeError(f"ids must be integers, not {flat.dtype}")
    if flat.ndim != 1:
        raise ValueError(f"ids must be one-dimensional, not of shape {flat.shape}")
    bad = _first_outside(flat, 0, size - 1)
    if bad >= 0:
        raise IndexError(f"id {flat[bad]} is outside 0..{size - 1}")
    return flat.astype(np.int64, copy=False)


def check_values(
    values: ArrayLike, ids: Ids | None, low: float, high: float, quantity: str, rule: str
) -> Floats:
    """`values` as a flat float64 array, each in [low, high]; one for each id, or a number that serves all."""
    flat = np.ascontiguousarray(values, dtype=np.float64)
    if ids is not None:
        if flat.shape != ids.shape and np.ndim(values) == 0:
            flat = np.full(ids.size, flat[0])
        if flat.shape != ids.shape:
            raise ValueError(f"{ids.size} ids but {quantity} of shape {flat.shape}")
    elif flat.ndim != 1:
        raise ValueError(f"{quantity} must be one-dimensional, not of shape {flat.shape}")
    bad = _first_outside(flat, low, high)
    if bad >= 0:
        raise ValueError(f"{quantity} of id {bad if ids is None else ids[bad]} is {flat[bad]}; {rule}")
    return flat


def check_uniforms(uniforms: ArrayLike) -> Floats:
    """Random numbers in [0, 1) as a flat float64 array."""
    flat = np.ascontiguousarray(uniforms, dtype=np.float64).reshape(-1)
    bad = _first_outside(flat, 0.0, 1.0 - 2.0**-53)
    if bad >= 0:
        raise ValueError(f"uniforms must lie in [0, 1); number {bad} is {flat[bad]}")
    return flat


def check_state(state: dict[str, Any], size: int) -> None:
    """Refuse a state of another size."""
    if state["size"] != size:
        raise ValueError(f"the state is of {state['size']} ids, this index is of {size}")

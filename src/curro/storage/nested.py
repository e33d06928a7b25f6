"""A nested dict taken apart into its arrays, by their places, and the plain values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Place = tuple[str, ...]
"""The names on the way to an array."""


def split(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Place, np.ndarray]]:
    """The state without its arrays, and these by their places."""
    arrays: dict[Place, np.ndarray] = {}
    return _split(state, (), arrays), arrays


def _split(state: Mapping[str, Any], way: Place, arrays: dict[Place, np.ndarray]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            values[name] = _split(value, (*way, name), arrays)
        elif isinstance(value, np.ndarray):
            arrays[*way, name] = value
        else:
            values[name] = value
    return values


def join(values: dict[str, Any], arrays: Mapping[Place, np.ndarray]) -> dict[str, Any]:
    """Put the arrays back in their places, in `values` itself; KeyError or TypeError where there is none."""
    for (*way, leaf), array in arrays.items():
        inside = values
        for name in way:
            inside = inside[name]
        inside[leaf] = array
    return values


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's; nothing else than JSON can be saved."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a state holds arrays, numbers, text, lists and dicts, not {type(value).__qualname__}")

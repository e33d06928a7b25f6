"""What a client may ask, in JSON or as a frame of arrays, as the port takes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.errors import ConfigError, RewardError

_CHOICE = {"n": True, "step": True, "rollouts": False}
_GROUPS = {"tickets": True, "rewards": True, "scored": False, "named": False}

FIELDS = {
    "select": _CHOICE,
    "observe": _GROUPS,
    "observe_and_select": _GROUPS | _CHOICE,
    "more": _GROUPS,
    "drop": {"tickets": True},
    "credit": {"advantages": True, "weights": True},
    "save": {"name": True},
    "load": {"name": True, "kept": False},
}
"""Of each question its fields, and whether each must be there."""


def read_fields(question: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a question, those of tickets and rewards as arrays.

    Rewards in lists may have `null` for a rollout that was not scored, and groups of different size.

    Raises:
        ConfigError: a field is missing or unknown, or tickets are no whole numbers.
        RewardError: rewards, or their parts, are not numbers.
    """
    known = FIELDS[question]
    for name in body:
        if name not in known:
            raise ConfigError(f"{question} has no field {name!r:.50}; it has: {', '.join(known)}")
    for name, needed in known.items():
        if needed and name not in body:
            raise ConfigError(f"{question} needs the field {name!r}")
    fields = dict(body)
    for name in ("tickets", "kept"):
        if name in fields:
            fields[name] = _whole_numbers(name, fields[name])
    if isinstance(fields.get("rewards"), list):
        rewards_PG = _numbers("rewards", fields["rewards"])
        if fields.get("scored") is None and np.isnan(rewards_PG).any():
            fields["scored"] = ~np.isnan(rewards_PG)
            rewards_PG = np.nan_to_num(rewards_PG, nan=0.0)
        fields["rewards"] = rewards_PG
    if fields.get("named") is not None:
        if not isinstance(fields["named"], dict):
            raise RewardError("`named` has the parts of the reward by their names")
        fields["named"] = {
            name: _numbers(name, part) if isinstance(part, list) else part
            for name, part in fields["named"].items()
        }
    for name in ("advantages", "weights"):
        if name in fields:
            fields[name] = _floats(name, fields[name])
    return fields


def as_json(state: Mapping[str, Any]) -> bytes:
    """A reply as JSON: arrays as lists, and null for what is not finite."""
    return json.dumps(_plain(state), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole_numbers(name: str, value: Any) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(value))
    except ValueError:
        array = np.empty((0, 0))
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ConfigError(f"{name} are a list of whole numbers, not {value!r:.50}")
    return array.astype(np.int64)


def _numbers(name: str, rows: Sequence[Any]) -> np.ndarray:
    """float64 (P, G) of rows of numbers; NaN for null, and where a row is shorter than the longest."""
    if not all(isinstance(row, list) for row in rows):
        raise RewardError(f"{name} are a list for each ticket, with a number for each rollout")
    array = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for row, values in zip(array, rows, strict=True):
        for place, value in enumerate(values):
            if value is not None:
                if type(value) not in (int, float) or not math.isfinite(value):
                    raise RewardError(f"{name} are finite numbers, or null for not scored, not {value!r:.50}")
                row[place] = value
    return array


def _floats(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} are numbers, not {value!r:.50}") from None

"""Whether a saved state has the origin and the form of the state that is to be overwritten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.errors import CheckpointError


def check_origin(saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Compare what a curriculum's state comes from.

    Raises:
        CheckpointError: another data set, configuration or version.
    """
    for what, name in (("format", "format"), ("data set", "fingerprint"), ("configuration", "config")):
        if saved.get(name) != here[name]:
            raise CheckpointError(
                f"the checkpoint is of another {what}: it has {saved.get(name)!r}, this curriculum "
                f"{here[name]!r}; resume with what saved it, or start a new run"
            )


def check_alike(saved: Any, here: Any, place: str = "state") -> None:
    """Compare types and array dimensions where names are the same.

    Names, lengths and values are checked by those who know them: some names are there only after a first
    update.

    Raises:
        CheckpointError: something is of another type.
    """
    if isinstance(here, Mapping):
        if not isinstance(saved, Mapping):
            raise _other(place, saved, "a dict")
        for name, value in here.items():
            if name in saved:
                check_alike(saved[name], value, f"{place}/{name}")
    elif isinstance(here, np.ndarray):
        if not isinstance(saved, np.ndarray) or saved.dtype != here.dtype or saved.ndim != here.ndim:
            raise _other(place, saved, f"an array of {here.dtype} with {here.ndim} dimensions")
    elif isinstance(here, float):
        if type(saved) not in (int, float):
            raise _other(place, saved, "a number")
    elif type(saved) is not type(here):
        raise _other(place, saved, f"a value of type {type(here).__name__}")


def require(fine: Any, place: str, words: str) -> None:
    """Raise CheckpointError with these words unless `fine`."""
    if not fine:
        raise CheckpointError(f"the checkpoint is damaged: {place} {words}")


def require_prompts(prompts: np.ndarray, size: int, place: str) -> None:
    """Raise CheckpointError unless all are numbers of prompts 0..size-1, whole ones."""
    fine = (prompts >= 0) & (prompts < size) & (prompts == np.floor(prompts))
    require(fine.all(), place, "are not of the table")


def _other(place: str, saved: Any, words: str) -> CheckpointError:
    found = f"{saved.dtype}{saved.shape}" if isinstance(saved, np.ndarray) else f"{saved!r:.50}"
    return CheckpointError(f"the checkpoint is damaged: {place} is {found}, not {words}")

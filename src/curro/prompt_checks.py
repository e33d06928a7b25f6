"""What a prompt table refuses: keys that name two prompts, reward ranges that are none, damaged columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from curro.errors import CheckpointError, ConfigError
from curro.saved_state import require


def check_keys(keys: Sequence[str]) -> None:
    """Refuse keys that are not unique, or that no file can store.

    Raises:
        ConfigError: names the first such prompt.
    """
    from curro.data.keys import UniqueKeys

    if isinstance(keys, UniqueKeys):
        return
    seen: dict[str, int] = {}
    for row, key in enumerate(keys):
        if isinstance(key, str) and not key.isascii():
            _refuse_surrogates(key, row)
        first = seen.setdefault(key, row)
        if first != row:
            raise ConfigError(f"prompts {first} and {row} have the same key {key!r}: keys must be unique")


def check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The rewards of failure and of success as two floats.

    Raises:
        ConfigError: they are not two finite numbers, the lower first.
    """
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(high - low) and low < high):
        raise ConfigError(f"reward_range is (failure, success) with failure < success, not {reward_range}")
    return low, high


def check_saved(saved: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray]) -> None:
    """Compare saved columns with those of a table that is to continue with them.

    Raises:
        CheckpointError: columns of other names, types or lengths, or with values that no table has.
    """
    if set(saved) != set(columns):
        raise CheckpointError(
            f"the saved prompt table has the columns {sorted(saved)}, this one {sorted(columns)}: "
            "load it with the curriculum that saved it"
        )
    for name, column in columns.items():
        found = saved[name]
        if found.shape != column.shape or found.dtype != column.dtype:
            raise CheckpointError(
                f"saved column {name!r} is {found.dtype}{found.shape}, "
                f"this table needs {column.dtype}{column.shape}"
            )
    visits, mean, variance = (saved[name] for name in ("visits", "reward_mean", "reward_variance"))
    seen_N = visits > 0
    require((visits >= 0).all(), "table/visits", "is below 0")
    require((saved["last_step"] >= -1).all(), "table/last_step", "is below -1")
    require(np.isfinite(mean[seen_N]).all(), "table/reward_mean", "is not finite")
    fine = np.isfinite(variance[seen_N]).all() and (variance[seen_N] >= 0).all()
    require(fine, "table/reward_variance", "is not finite and from 0")


def _refuse_surrogates(key: str, row: int) -> None:
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the key of prompt {row} holds half a character ({key[error.start]!a}), which no file can "
            "store: mend the key"
        ) from None

"""The prompt table: a row a prompt, named columns, no Python object per prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from curro.core import identity
from curro.core.checkpoint import check_state
from curro.core.errors import CheckpointError, ConfigError, require
from curro.core.text import preview

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


SOURCES = ("source", "data_source")
"""Columns of a data set that say where a prompt comes from."""

MOST_PROMPTS = 2**31 - 1
"""Prompts that a table can have: indexes store their numbers as int32."""

OTHER = "other"
"""The source of prompts that name none."""


class PromptTable:
    """What is remembered of every prompt: the columns of the port and those a method adds.

    A prompt is a dense integer 0..N-1. The table holds a reference to the data set's keys for messages and
    for its data frame, and saves the fingerprint alone. The port keeps `prompts_in_flight`, int64, whose
    `in_flight` is set, and `signal_parts`, the parts of the reward that are the signal; empty: the trained
    reward.

    Attributes:
        source_column: the column of the rows that names a prompt's source; None if no row has one.

    Args:
        prompts: the number of prompts N, or a sequence of the data set's N keys.
        fingerprint: identifies the data set; a saved table is refused for another one. By default a
            hash of the keys, or the number of prompts.
        rows: the data set's N rows, dicts of its columns, for methods that look at them; kept by reference.
        reward_range: the rewards of complete failure and of complete success.

    Raises:
        ConfigError: no prompts, prompts that are neither, two prompts with one key, or a reward range
            that is not two numbers, the lower first.
    """

    def __init__(
        self,
        prompts: int | Sequence[str],
        *,
        fingerprint: str | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.rows = rows
        self.keys: Sequence[str] | None = None
        if isinstance(prompts, int | np.integer):
            self.size = int(prompts)
        elif isinstance(prompts, str | Mapping) or not hasattr(prompts, "__len__"):
            raise ConfigError(f"prompts are a number, or the sequence of their keys, not {prompts!r:.100}")
        else:
            self.keys, self.size = prompts, len(prompts)
        if self.size < 1:
            raise ConfigError("the data set is empty: a curriculum needs at least one prompt")
        if self.size > MOST_PROMPTS:
            raise ConfigError(f"a curriculum takes at most {MOST_PROMPTS:,} prompts, not {self.size:,}")
        if self.keys is None:
            self.fingerprint = fingerprint or f"{self.size} prompts"
        else:
            _check_keys(self.keys)
            self.fingerprint = fingerprint or identity.fingerprint(self.keys)
        self.reward_range = _read_range(reward_range)
        self.signal_parts: tuple[str, ...] = ()
        self.has_shares = False
        self.prompts_in_flight = np.empty(0, np.int64)
        self.columns: dict[str, np.ndarray] = {}
        self.add("visits", np.int32, 0)
        self.add("last_step", np.int32, -1)
        self.add("reward_mean", np.float32, np.nan)
        self.add("reward_variance", np.float32, np.nan)
        self.add("in_flight", np.bool_, False)
        self._texts: pa.Array | None = None
        self.source_column = _source_column(rows)

    @property
    def is_numbered(self) -> bool:
        """Whether nothing is known of the data set but how many prompts it has."""
        return self.fingerprint == f"{self.size} prompts"

    def adopt(self, prompts: Any) -> None:
        """Take over the `keys`, the `fingerprint` and the `rows` of the data set that a host trains on."""
        _check_keys(prompts.keys)
        self.keys, self.fingerprint, self.rows = prompts.keys, prompts.fingerprint, prompts.rows
        self._texts, self.source_column = None, _source_column(self.rows)

    def add(self, name: str, dtype: Any, initial: float) -> np.ndarray:
        """Add a column of shape (N,) that starts at `initial` everywhere; returns it.

        Raises:
            ConfigError: a name that is taken, or that has a '/'; or more prompts than memory holds.
        """
        if name in self.columns or name in ("prompt", "key", "text"):
            raise ConfigError(f"the prompt table has a column {name!r} already: choose another name")
        if "/" in name:
            raise ConfigError(f"a column's name has no '/', because checkpoints have: rename {name!r}")
        # np.zeros maps untouched pages lazily, so a column of zeros costs memory only once written
        try:
            column = np.zeros(self.size, dtype) if initial == 0 else np.full(self.size, initial, dtype)
        except MemoryError as error:
            raise ConfigError(f"memory does not hold the column {name!r} of {self.size:,} prompts") from error
        self.columns[name] = column
        return column

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(f"no column {name!r} in the prompt table; it has {', '.join(self.columns)}")
        return self.columns[name]

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"PromptTable({self.size} prompts, {self.census()[0]} seen: {', '.join(self.columns)})"

    def key(self, prompt: int) -> str:
        """The data set's key of a prompt; its number where the data set has no keys."""
        return str(prompt) if self.keys is None else self.keys[prompt]

    def text(self, prompt: int) -> str:
        """The first 80 characters of a prompt, on one line; empty where the table has no rows."""
        return "" if self.rows is None else preview(self.rows[prompt].get("prompt"))

    def source(self, prompt: int) -> str | None:
        """Where a prompt comes from, by the data set's own column; None where it has none."""
        if self.source_column is None or self.rows is None:
            return None
        source = self.rows[prompt].get(self.source_column)
        return None if source is None else str(source)

    def sources(self) -> tuple[list[str], np.ndarray]:
        """The names of the sources, and the number of each prompt's source, int64 (N,).

        Prompts without a source count as `other`.
        """
        if self.source_column is None:
            return [OTHER], np.zeros(self.size, np.int64)
        values = self.column_of_rows(self.source_column)
        names_N = [OTHER if value is None else str(value) or OTHER for value in values]
        names, source_N = np.unique(names_N, return_inverse=True)
        return names.tolist(), source_N

    def values(self, column: str) -> list[Any]:
        """The N values of a column of the data set's own.

        Raises:
            ConfigError: the data set came without its rows, or a row has no such column.
        """
        if self.rows is None:
            raise ConfigError(
                f"the column {column!r} is not known: give the curriculum a `PromptSet`, which has the rows"
            )
        values = self.column_of_rows(column)
        if None in values:
            raise ConfigError(f"prompt {self.key(values.index(None))!r} has no {column!r}: all rows need one")
        return values

    def column_of_rows(self, column: str) -> list[Any]:
        """The N values of a column of the data set, None where a row has no such column."""
        assert self.rows is not None
        return identity.column_of(self.rows, column)

    def success_rate(self, mean: np.ndarray) -> np.ndarray:
        """Mean rewards on the scale where 0 is complete failure and 1 complete success."""
        low, high = self.reward_range
        return (mean - low) / (high - low)

    def informativeness(self, variance: np.ndarray) -> np.ndarray:
        """Reward variances in squared reward ranges, p(1-p) for 0/1 rewards."""
        low, high = self.reward_range
        return variance / (high - low) ** 2

    def is_flat(self, variance: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Whether groups of this reward variance count as without signal.

        A 0/1 group has p <= tolerance or p >= 1 - tolerance exactly when its variance is at most tolerance
        (1 - tolerance), so this is the papers' rule for any rewards. A tolerance of 0 allows for rounding.
        """
        return variance <= flat_variance(tolerance, self.reward_range)

    def is_solved(self, mean: np.ndarray, variance: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """Whether groups of these rewards count as solved: `is_flat`, and at least halfway to success."""
        return self.is_flat(variance, tolerance) & (self.success_rate(mean) >= 0.5)

    def visit(self, prompts: np.ndarray, steps: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
        """Note one more visit of each of P prompts: its step, and its group's mean reward and variance."""
        self.columns["visits"][prompts] += 1
        for name, values_P in (("last_step", steps), ("reward_mean", mean), ("reward_variance", variance)):
            self.columns[name][prompts] = values_P

    def metrics(self) -> dict[str, float]:
        """Counts by the latest visit: unseen, solved, unsolved (no variance), learnable; success rates."""
        seen, solved, flat, mean, deviation = self.census()
        return {
            "table/unseen": float(self.size - seen),
            "table/solved": float(solved),
            "table/unsolved": float(flat - solved),
            "table/learnable": float(seen - flat),
            "table/success_rate_mean": mean,
            "table/success_rate_std": deviation,
        }

    def census(self) -> tuple[int, int, int, float, float]:
        """Count the prompts seen, solved and without variance by their latest visit.

        Returns the three counts, and the mean and standard deviation of success rates, NaN of none.
        """
        seen = np.flatnonzero(self.columns["visits"])
        mean_S, variance_S = (
            self.columns[name][seen].astype(np.float64) for name in ("reward_mean", "reward_variance")
        )
        rate_S = self.success_rate(mean_S)
        flat, solved = (
            np.count_nonzero(of) for of in (self.is_flat(variance_S), self.is_solved(mean_S, variance_S))
        )
        spread = (float(rate_S.mean()), float(rate_S.std())) if len(seen) else (np.nan, np.nan)
        return len(seen), int(solved), int(flat), *spread

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of every column."""
        return {name: column.copy() for name, column in self.columns.items()}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Overwrite the columns in place.

        Raises:
            CheckpointError: columns of other names, types or lengths than this table's.
        """
        _check_columns(state, self.columns)
        for name, column in self.columns.items():
            column[:] = state[name]

    def to_arrow(self) -> pa.Table:
        """A copy of the table as a `pyarrow.Table`, with the prompts' numbers, keys and texts in front."""
        import pyarrow as pa

        columns: dict[str, Any] = {"prompt": np.arange(self.size)}
        if self.keys is not None:
            columns["key"] = list(self.keys)
        if self.rows is not None:
            if self._texts is None:
                self._texts = pa.array((self.text(i) for i in range(self.size)), pa.string())
            columns["text"] = self._texts
        # Arrow would share the memory of a column, and change as training goes on
        return pa.table(columns | self.state_dict(), metadata={"curro.fingerprint": self.fingerprint})

    def to_pandas(self) -> pd.DataFrame:
        """The same as a `pandas.DataFrame`."""
        return self.to_arrow().to_pandas()


def flat_variance(tolerance: float, reward_range: tuple[float, float] = (0.0, 1.0)) -> float:
    """The largest variance of a group that counts as without signal, for every gate, method and metric."""
    low, high = reward_range
    return max(tolerance * (1 - tolerance), 1e-12) * (high - low) ** 2 * (1 + 1e-9)


def _source_column(rows: Sequence[Mapping[str, Any]] | None) -> str | None:
    if rows is None or not len(rows):
        return None
    for some in ([rows[0]], rows):
        for name in SOURCES:
            if any(value is not None for value in identity.column_of(some, name)):
                return name
    return None


def _check_keys(keys: Sequence[str]) -> None:
    """Refuse keys that are not unique, or that no file can store."""
    seen: dict[str, int] = {}
    for row, key in enumerate(keys):
        if not isinstance(key, str | Integral):
            raise ConfigError(
                f"prompt {row} is {key!r:.50}: prompts are rows with a column `prompt`, their keys, or their "
                "number"
            )
        try:
            str(key).encode()
        except UnicodeEncodeError as error:
            raise ConfigError(
                f"the key of prompt {row} holds half a character ({key[error.start]!a}), which no file can "
                "store: mend the key"
            ) from None
        first = seen.setdefault(key, row)
        if first != row:
            raise ConfigError(f"prompts {first} and {row} have the same key {key!r}: keys must be unique")


def _read_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The rewards of failure and of success as two floats."""
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    is_range = np.isfinite(high - low) and low < high
    require(is_range, "reward_range", "(failure, success) with failure < success", reward_range)
    if not 1e-100 <= high - low <= 1e100:
        wrong = "small to be told from 0" if high - low < 1 else "large for floating-point numbers"
        raise ConfigError(
            f"reward_range is {reward_range!r:.50}: variances are too {wrong}, so scale the rewards"
        )
    return low, high


def _check_columns(saved: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray]) -> None:
    """Compare saved columns with the columns of a table that is to continue with them."""
    kinds, needed = (
        {name: f"{column.dtype}{column.shape}" for name, column in sorted(table.items())}
        for table in (saved, columns)
    )
    if kinds != needed:
        raise CheckpointError(
            f"the saved prompt table has the columns {kinds}, this one {needed}: load it with the curriculum "
            "that saved it"
        )
    seen_N = saved["visits"] > 0
    mean_S, variance_S = saved["reward_mean"][seen_N], saved["reward_variance"][seen_N]
    check_state((saved["visits"] >= 0).all() and (saved["last_step"] >= -1).all(), "table/visits")
    is_moment = np.isfinite([mean_S, variance_S]).all() and (variance_S >= 0).all()
    check_state(is_moment, "table/reward_mean or reward_variance")

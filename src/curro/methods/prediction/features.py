"""What a regression reads of a prompt before its first rollout: text, entropies, a known pass rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curro.core.errors import ConfigError
from curro.core.policy import Policy
from curro.core.prompts import PromptTable
from curro.core.text import prompt_text

BITS = 7
_LONGEST = 2048
_COUNTS = np.arange(_LONGEST + 2)
_LOGS = np.log1p(_COUNTS)
_FEW = 4
_RAMP = np.where(_COUNTS <= _FEW, _COUNTS, _FEW * (1 + np.log(np.maximum(_COUNTS, 1) / _FEW)))
_MIX = np.uint64(0x9E3779B97F4A7C15)
_POWERS = np.cumprod(np.concatenate([[1], np.full(_LONGEST, 0x100000001B3)]).astype(np.uint64))
"""By which the bytes of a word are multiplied in its code, modulo 2^64."""
_SPACE = 32
LEAST = 0.02
"""Known pass rates are clipped to [LEAST, 1 - LEAST], since few rollouts cannot measure a rate nearer to 0 or
1."""


TEXT_WIDTH = 2 * (1 << BITS) + 2
"""The number of features of a text: counts of bytes and words, two lengths."""
NAMES = ("text", "entropy")
_COLUMNS = ("first_entropy", "second_entropy")


class Features:
    """Turns prompts into D numbers that a regression reads: any of three kinds, side by side.

    1. Hashed counts of what a prompt's text is made of (`text_features`), where the table has texts.
    2. The entropies of the policy's first two tokens after a prompt, in nats: a policy that is sure of its
       answer fails always or never. They are kept in the table's columns `first_entropy` and
       `second_entropy`. The policy is asked about a prompt once, when the prompt is first a candidate, so
       that all of them together cost one reading of the data set.
    3. The logit of a pass rate that was known before the first rollout. The regression starts with a weight
       of 1 on this logit, which takes the column at its word, and then learns what the column is worth. A
       prompt without a known rate gets the mean of all logits.

    Args:
        names: "text", "entropy" or both, joined by "+"; empty for neither.
        known: the column of the data set with the pass rates, numbers in [0, 1] or None. None: there is none.

    Raises:
        ConfigError: other names.
    """

    def __init__(self, names: str, known: str | None = None) -> None:
        parts = names.split("+") if names else []
        if not set(parts) <= {*NAMES} or len(set(parts)) < len(parts):
            raise ConfigError(f"features are {', '.join(NAMES)}, or both joined by +, not {names!r}")
        self.reads_texts, self.needs_policy, self.known = "text" in parts, "entropy" in parts, known

    def bind(self, table: PromptTable) -> None:
        """Keep the prompt table, and read the column of known rates.

        Raises:
            ConfigError: the column is missing, or not of pass rates.
        """
        self.reads_texts &= table.rows is not None and "prompt" in table.rows[0]
        select = getattr(table.rows, "select_columns", None)  # a `datasets.Dataset`: slow row by row
        self.in_batches = select is not None
        self.rows: Any = select(["prompt"]) if select and self.reads_texts else table.rows
        self.entropies = [table.add(name, np.float32, np.nan) for name in _COLUMNS if self.needs_policy]
        self.logit_N = None if self.known is None else _known_logits(table, self.known)
        self.width = TEXT_WIDTH * self.reads_texts + len(self.entropies) + (self.logit_N is not None)

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends."""
        self.policy = policy

    @property
    def means(self) -> np.ndarray:
        """Prior means of a regression's weights, float64 (D,): 1 for the known rate, 0 for the others."""
        return np.zeros(self.width) if self.known is None else np.eye(1, self.width, self.width - 1)[0]

    def of(self, prompts: np.ndarray) -> np.ndarray:
        """The features of prompts (P,), float64 (P, D)."""
        parts = [np.empty((len(prompts), 0))]
        if self.reads_texts:
            numbers, rows = prompts.tolist(), self.rows
            read = rows[numbers]["prompt"] if self.in_batches else [rows[n]["prompt"] for n in numbers]
            parts.append(text_features([prompt_text(prompt) for prompt in read]))
        if self.entropies:
            self._ask(np.unique(prompts[np.isnan(self.entropies[0][prompts])]))
            parts.append(np.stack([column_N[prompts] for column_N in self.entropies], axis=1))
        if self.logit_N is not None:
            parts.append(self.logit_N[prompts][:, None])
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def _ask(self, unknown: np.ndarray) -> None:
        if len(unknown):
            for column_N, values in zip(
                self.entropies, self.policy.entropies(unknown.tolist()).T, strict=True
            ):
                column_N[unknown] = values


def _known_logits(table: PromptTable, column: str) -> np.ndarray:
    """The logit of each prompt's known pass rate, float64 (N,)."""
    if table.rows is None:
        raise ConfigError(f"known={column} is a column: give the curriculum a `PromptSet` with rows")
    rates = table.column_of_rows(column)
    try:
        known_N = np.array([np.nan if rate is None else rate for rate in rates], np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the column {column!r} has a value that is no number: {error}") from None
    rates_K = known_N[~np.isnan(known_N)]
    if not len(rates_K):
        raise ConfigError(f"no prompt of the data set has a number in the column {column!r}")
    if rates_K.min() < 0 or rates_K.max() > 1:
        raise ConfigError(f"the column {column!r} has numbers that are no pass rates in [0, 1]")
    clipped_N = np.clip(known_N, LEAST, 1 - LEAST)
    logit_N = np.log(clipped_N / (1 - clipped_N))
    return np.nan_to_num(logit_N, nan=float(np.nanmean(logit_N)))


def text_features(texts: Sequence[str]) -> np.ndarray:
    """Counts of the bytes and hashed counts of the words of each text, and lengths: float64 (P, D).

    A byte that occurs c times has the value c up to 4, and 4 (1 + log(c / 4)) above that: where each letter
    is a step that can fail, two letters cost twice as much as one. A word has the value log(1 + c). The last
    two columns are 3 log(1 + length) in bytes and in words, because longer problems tend to be harder.

    Only the first and the last 1,024 bytes of a long text are read. Every ASCII byte has a feature of its
    own; words share theirs by hashing.
    """
    raw = [text.encode("utf-8", "replace") for text in texts]
    raw = [text if len(text) <= _LONGEST else _ends(text) for text in raw]
    size_P = np.array([len(text) for text in raw], np.int64)
    data_B = np.frombuffer(b"".join(raw), np.uint8)
    text_B = np.repeat(np.arange(len(raw)), size_P)
    inside = np.flatnonzero(data_B > _SPACE)
    byte_C, text_C = data_B[inside].astype(np.uint64), text_B[inside]
    # a word begins after a space, and at the beginning of a text
    begins_C = (np.diff(inside, prepend=-2) > 1) | (np.diff(text_C, prepend=-1) > 0)
    start_W = np.flatnonzero(begins_C)
    length_W = np.diff(start_W, append=len(inside))
    place_C = np.arange(len(inside)) - np.repeat(start_W, length_W)
    code_W = np.add.reduceat(byte_C * _POWERS[place_C], start_W) if len(start_W) else byte_C
    text_W, bucket_W = text_C[start_W], (code_W ^ (code_W >> np.uint64(32))) * _MIX >> np.uint64(64 - BITS)
    letters_PD = _counts_of(text_C, byte_C & np.uint64((1 << BITS) - 1), len(raw))
    words_PD = _counts_of(text_W, bucket_W, len(raw))
    lengths_P2 = np.stack([size_P, np.bincount(text_W, minlength=len(raw))], axis=1)
    return np.concatenate([_RAMP[letters_PD], _LOGS[words_PD], 3 * _LOGS[lengths_P2]], axis=1)


def _counts_of(text_K: np.ndarray, column_K: np.ndarray, texts: int) -> np.ndarray:
    """How often each of 2^BITS columns stands in each text, int64 (P, D)."""
    cells_K = (text_K << BITS) + column_K.astype(np.int64)
    return np.bincount(cells_K, minlength=texts << BITS).reshape(texts, 1 << BITS)


def _ends(raw: bytes) -> bytes:
    half = _LONGEST // 2
    return raw[:half] + raw[-half:]

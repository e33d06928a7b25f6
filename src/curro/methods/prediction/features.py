"""What a regression reads of a prompt before its first rollout.

`TextFeatures` counts what the prompt's text is made of, and `EntropyFeatures` asks the policy how sure it is
of its first tokens. `JoinedFeatures` puts both side by side, and `KnownFeatures` adds a pass rate that was
known before training. The counting of texts stands at the end of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from curro.core.compiled import kernel, part
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
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE, _S32, _S64 = np.uint64(0), np.uint64(1), np.uint64(32), 64
_SPACE = np.uint8(32)
LEAST = 0.02
"""Known pass rates are clipped to [LEAST, 1 - LEAST], since few rollouts cannot measure a rate nearer to 0 or
1."""


class Features:
    """Base of all features: they turn prompts into D numbers that a regression reads, and stay as they are.

    Attributes:
        width: D, how many numbers.
        needs_policy: whether the policy computes them, so that a host has to lend it.
        knows: whether they predict a success rate before the regression was ever fitted.
    """

    width = 0
    needs_policy = False
    knows = False

    def bind(self, table: PromptTable) -> bool:
        """Keep the prompt table. Returns whether it holds what these features are made of."""
        raise NotImplementedError

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends."""

    @property
    def means(self) -> np.ndarray:
        """Prior means of a regression's weights, float64 (D,)."""
        return np.zeros(self.width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        """The features of prompts (P,), float64 (P, D)."""
        raise NotImplementedError


class TextFeatures(Features):
    """Hashed counts of what a prompt's text is made of (`text_features`): bytes, words, lengths."""

    width = 2 * (1 << BITS) + 2

    def bind(self, table: PromptTable) -> bool:
        self.rows = table.rows
        return table.rows is not None and "prompt" in table.rows[0]

    def of(self, prompts: np.ndarray) -> np.ndarray:
        assert self.rows is not None
        return text_features([prompt_text(self.rows[prompt]["prompt"]) for prompt in prompts.tolist()])


class EntropyFeatures(Features):
    """The entropies of the policy's first two tokens after a prompt, when it first asks about the prompt.

    A policy that is sure of its answer fails always or never; one that hesitates may do either. The entropies
    are kept in the table's columns `first_entropy` and `second_entropy`, in nats, and the policy is asked
    about a prompt once, so that all of them together cost one reading of the data set.
    """

    width = 2
    needs_policy = True

    def bind(self, table: PromptTable) -> bool:
        self.columns = [table.add(name, np.float32, np.nan) for name in ("first_entropy", "second_entropy")]
        return True

    def attach(self, policy: Policy) -> None:
        self.policy = policy

    def of(self, prompts: np.ndarray) -> np.ndarray:
        unknown = np.unique(prompts[np.isnan(self.columns[0][prompts])])
        if len(unknown):
            for column_N, values in zip(self.columns, self.policy.entropies(unknown.tolist()).T, strict=True):
                column_N[unknown] = values
        return np.stack([column_N[prompts] for column_N in self.columns], axis=1).astype(np.float64)


class JoinedFeatures(Features):
    """Several kinds of features side by side, without the ones that the table holds nothing for."""

    def __init__(self, parts: Sequence[Features]) -> None:
        self.parts = list(parts)
        self.needs_policy = any(features.needs_policy for features in parts)

    def bind(self, table: PromptTable) -> bool:
        self.parts = [features for features in self.parts if features.bind(table)]
        self.width = sum(features.width for features in self.parts)
        return bool(self.parts)

    def attach(self, policy: Policy) -> None:
        for features in self.parts:
            features.attach(policy)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        return np.concatenate([features.of(prompts) for features in self.parts], axis=1)


class KnownFeatures(JoinedFeatures):
    """Other features, followed by the logit of a pass rate that was known before the first rollout.

    The regression starts with a weight of 1 on this logit, which takes the column at its word, and then
    learns what the column is worth: everything where the rates are of the same model, less if they are of
    another model, and nothing if they are noise. A prompt without a known rate gets the mean of all
    logits.

    Args:
        column: the column of the data set with the pass rates, numbers in [0, 1] or None.
        others: further features.
    """

    knows = True

    def __init__(self, column: str, others: Sequence[Features] = ()) -> None:
        super().__init__(others)
        self.column = column

    def bind(self, table: PromptTable) -> bool:
        """Read the column."""
        super().bind(table)
        self.width += 1
        if table.rows is None:
            raise ConfigError(f"known={self.column} is a column: give the curriculum a `PromptSet` with rows")
        rates = table.column_of_rows(self.column)
        try:
            known_N = np.array([np.nan if rate is None else rate for rate in rates], np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the column {self.column!r} has a value that is no number: {error}") from None
        rates_K = known_N[~np.isnan(known_N)]
        if not len(rates_K):
            raise ConfigError(f"no prompt of the data set has a number in the column {self.column!r}")
        if rates_K.min() < 0 or rates_K.max() > 1:
            raise ConfigError(f"the column {self.column!r} has numbers that are no pass rates in [0, 1]")
        clipped_N = np.clip(known_N, LEAST, 1 - LEAST)
        logit_N = np.log(clipped_N / (1 - clipped_N))
        self.logit_N = np.nan_to_num(logit_N, nan=float(np.nanmean(logit_N)))
        return True

    @property
    def means(self) -> np.ndarray:
        """Prior means of the weights, float64 (D,): 1 for the known rate, 0 for the others."""
        return np.eye(1, self.width, self.width - 1)[0]

    def of(self, prompts: np.ndarray) -> np.ndarray:
        known_P1 = self.logit_N[prompts][:, None]
        return np.concatenate([*(features.of(prompts) for features in self.parts), known_P1], axis=1)


FEATURES: dict[str, type[Features]] = {"text": TextFeatures, "entropy": EntropyFeatures}


def features_of(names: str, known: str | None = None) -> Features:
    """The features of these names, joined by "+", and a column of known pass rates."""
    parts = names.split("+")
    if not set(parts) <= FEATURES.keys() or len(set(parts)) < len(parts):
        raise ConfigError(f"features are {', '.join(FEATURES)}, or both joined by +, not {names!r}")
    features = [FEATURES[name]() for name in parts]
    return JoinedFeatures(features) if known is None else KnownFeatures(known, features)


def text_features(texts: Sequence[str]) -> np.ndarray:
    """Counts of the bytes and hashed counts of the words of each text, and lengths: float64 (P, D).

    A byte that occurs c times has the value c up to 4, and 4 (1 + log(c / 4)) above that: where each letter
    is a step that can fail, two letters cost twice as much as one. A word has the value log(1 + c).
    The last two columns are 3 log(1 + length) in bytes and in words, because longer problems tend to be
    harder; they carry what a few groups teach over to prompts that consist of other letters.

    Only the first and the last 1,024 bytes of a long text are read. Every ASCII byte has a feature of its
    own; words share theirs by hashing.
    """
    raw = [text.encode("utf-8", "replace") for text in texts]
    raw = [text if len(text) <= _LONGEST else _ends(text) for text in raw]
    sizes = np.array([len(text) for text in raw], np.int64)
    features_PD = np.empty((len(raw), TextFeatures.width))
    data = np.frombuffer(b"".join(raw), np.uint8)
    count_texts(data, np.cumsum(sizes), BITS, _RAMP, _LOGS, features_PD)
    return features_PD


def _ends(raw: bytes) -> bytes:
    half = _LONGEST // 2
    return raw[:half] + raw[-half:]


@kernel
def count_texts(data, ends, bits, ramp, logs, features):  # type: ignore[no-untyped-def]
    """Count the bytes and words of each text, in one pass over its bytes.

    Each kind has 2^bits hashed columns; the last two columns are the lengths in bytes and in words.

    Text t is data[ends[t - 1]:ends[t]]. A space before and after it keeps its words within it. `ramp[c]` is
    the value of c occurrences of a byte, `logs[c]` that of c occurrences of a word, and a third of the value
    of a length c. Fills the rows of `features`.
    """
    block = 1 << bits
    whole_words, mask = np.uint64(block), np.uint64(block - 1)
    counts = np.empty(2 * block, np.int32)
    begin = 0
    for t in range(ends.size):
        counts[:] = 0
        i, word_count = begin, 0
        while i < ends[t]:
            if data[i] <= _SPACE:
                i += 1
                continue
            word, power = _ZERO, _ONE
            byte = np.uint64(data[i])
            while byte > _SPACE:
                counts[byte & mask] += 1
                word += byte * power
                power *= _BASE
                i += 1
                byte = np.uint64(data[np.uint64(i)] if i < ends[t] else _SPACE)
            counts[whole_words + _hash(word, bits)] += 1
            word_count += 1
        for d in range(block):
            features[t, d] = ramp[np.uint64(counts[d])]
        for d in range(block, 2 * block):
            features[t, d] = logs[np.uint64(counts[d])]
        features[t, 2 * block] = 3 * logs[ends[t] - begin]
        features[t, 2 * block + 1] = 3 * logs[word_count]
        begin = ends[t]


@part
def _hash(code, bits):  # type: ignore[no-untyped-def]
    """Hash a uint64 code to 0 .. 2^bits - 1, as uint64, which numba indexes without a check of the sign."""
    mixed = (code ^ (code >> _S32)) * _MIX
    return mixed >> np.uint64(_S64 - bits)

"""What a prompt looks like to a regression: its text, or the policy's own hidden state of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from curro.errors import ConfigError
from curro.index.compiled import kernel, part
from curro.policy import Policy
from curro.prompts import PromptTable

_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE, _S8, _S32, _S64 = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(32), 64
_SPACE = np.uint8(32)


@part
def _hash(code, bits):  # type: ignore[no-untyped-def]
    """A code spread over 0 .. 2^bits - 1; both uint64: the sign of such an index is not looked at."""
    mixed = (code ^ (code >> _S32)) * _MIX
    return mixed >> np.uint64(_S64 - bits)


@kernel
def count_texts(data, ends, bits, ramp, logs, features):  # type: ignore[no-untyped-def]
    """Counts of the bytes, pairs of bytes and words of texts, 2^bits hashed columns each, and the lengths of
    the texts in bytes and words, a column each.

    Text t is data[ends[t - 1]:ends[t]]. A space before and after it keeps its pairs and words within it.
    `ramp` has the value of each count of a byte, `logs` of every other count, and a third of the value of a
    length. Fills the rows of `features`.
    """
    block = 1 << bits
    pairs, whole_words, mask = np.uint64(block), np.uint64(2 * block), np.uint64(block - 1)
    counts = np.empty(3 * block, np.int32)
    begin = 0
    for t in range(ends.size):
        counts[:] = 0
        i, words = begin, 0
        while i < ends[t]:
            if data[i] <= _SPACE:
                i += 1
                continue
            before, word, power = np.uint64(data[i - 1] if i > begin else _SPACE), _ZERO, _ONE
            byte = np.uint64(data[i])
            while byte > _SPACE:
                counts[pairs + _hash((before << _S8) + byte, bits)] += 1
                counts[byte & mask] += 1
                word += byte * power
                power *= _BASE
                before, i = byte, i + 1
                byte = np.uint64(data[np.uint64(i)] if i < ends[t] else _SPACE)
            counts[pairs + _hash((before << _S8) + byte, bits)] += 1
            counts[whole_words + _hash(word, bits)] += 1
            words += 1
        for d in range(block):
            features[t, d] = ramp[np.uint64(counts[d])]
        for d in range(block, 3 * block):
            features[t, d] = logs[np.uint64(counts[d])]
        features[t, 3 * block] = 3 * logs[ends[t] - begin]
        features[t, 3 * block + 1] = 3 * logs[words]
        begin = ends[t]


BITS = 7
BLOCKS = BYTES, PAIRS, WORDS, LENGTHS = (*3 * (1 << BITS,), 2)
"""Features of each kind."""

_LONGEST = 2048
_COUNTS = np.arange(_LONGEST + 2)
_LOGS = np.log1p(_COUNTS)
_FEW = 4
_RAMP = np.where(_COUNTS <= _FEW, _COUNTS, _FEW * (1 + np.log(np.maximum(_COUNTS, 1) / _FEW)))


def text_of(row: Mapping[str, Any]) -> str:
    """The text of a row's `prompt`; of messages, what is not the system's."""
    prompt = row["prompt"]
    if isinstance(prompt, str):
        return prompt
    return "\n".join(str(message["content"]) for message in prompt if message["role"] != "system")


def text_features(texts: Sequence[str]) -> np.ndarray:
    """Hashed counts of the bytes, pairs of bytes and words of each text, and lengths: float64 (P, D).

    A byte that stands there c times has the value c up to 4, and 4 (1 + log(c / 4)) above: where each letter
    is a skill that can fail, two of them cost twice as much as one. A pair or word has log(1 + c). The last
    two columns are 3 log(1 + length) in bytes and in words, since longer problems tend to be harder. They
    stand for all that a text's letters have in common, so that a few groups tell of prompts with other ones.

    Of a long text the first and the last 1,024 bytes are read. ASCII bytes have a feature each; pairs and
    words share theirs with others.
    """
    raw = [text.encode("utf-8", "replace") for text in texts]
    raw = [text if len(text) <= _LONGEST else _ends(text) for text in raw]
    sizes = np.array([len(text) for text in raw], np.int64)
    features_PD = np.empty((len(raw), sum(BLOCKS)))
    data = np.frombuffer(b"".join(raw), np.uint8)
    count_texts(data, np.cumsum(sizes), BITS, _RAMP, _LOGS, features_PD)
    return features_PD


def _ends(raw: bytes) -> bytes:
    half = _LONGEST // 2
    return raw[:half] + raw[-half:]


LENGTH = 4.0
"""Of a hidden state's features, about that of a line of text's."""


class Features(Protocol):
    """Features of prompts.

    Attributes:
        lasting: whether a prompt's features stay as they are.
        needs_policy: whether they are the policy's.
        knows: whether they predict something before the first fit.
    """

    lasting: bool
    needs_policy: bool
    knows: bool

    def bind(self, table: PromptTable) -> bool:
        """Keep the prompt table; whether there is anything in it to make features of."""
        ...

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends."""
        ...

    def blocks(self, width: int) -> Sequence[int]:
        """How many of D = `width` features are of each kind."""
        ...

    def means(self, width: int) -> np.ndarray:
        """What the weights of a regression are believed to be at first, float64 (D,)."""
        ...

    def of(self, prompts: np.ndarray) -> np.ndarray:
        """Features of prompts (P,), float64 (P, D)."""
        ...


class TextFeatures:
    """Hashed counts of what a prompt's text is made of (`text_features`)."""

    lasting, needs_policy, knows = True, False, False

    def bind(self, table: PromptTable) -> bool:
        self.rows = table.rows
        return table.rows is not None and "prompt" in table.rows[0]

    def attach(self, policy: Policy) -> None:
        pass

    def blocks(self, width: int) -> Sequence[int]:
        return BLOCKS

    def means(self, width: int) -> np.ndarray:
        return np.zeros(width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        assert self.rows is not None
        return text_features([text_of(self.rows[prompt]) for prompt in prompts.tolist()])


class HiddenFeatures:
    """The policy's hidden state of a prompt's last token, as the policy is now: centred, and of length 4.

    So all prompts count alike, whatever the model's scale is. Nothing is kept: features are asked for when
    they are needed, of each prompt once.
    """

    lasting, needs_policy, knows = False, True, False

    def bind(self, table: PromptTable) -> bool:
        return True

    def attach(self, policy: Policy) -> None:
        self.policy = policy

    def blocks(self, width: int) -> Sequence[int]:
        return (width,)

    def means(self, width: int) -> np.ndarray:
        return np.zeros(width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        distinct, place = np.unique(prompts, return_inverse=True)
        states = self.policy.hidden_states(distinct.tolist()).astype(np.float64)
        states -= states.mean(axis=1, keepdims=True)
        length = np.linalg.norm(states, axis=1, keepdims=True)
        return (LENGTH * states / np.maximum(length, 1e-12))[place]


FEATURES: dict[str, type[Features]] = {"text": TextFeatures, "hidden": HiddenFeatures}


def features_of(name: str) -> Features:
    """Features by name.

    Raises:
        ConfigError: no such name.
    """
    if name not in FEATURES:
        raise ConfigError(f"features is one of {', '.join(FEATURES)}, not {name!r}")
    return FEATURES[name]()


LEAST = 0.02
"""A known pass rate counts as no nearer to 0 or 1 than this: few rollouts tell no more."""


class KnownFeatures:
    """Other features, and last the logit of the pass rate that a column of the data set has.

    A regression on it starts with the weight 1, which takes the column at its word, and learns what it is
    worth: all of it where it is of the same model, less of another's, nothing where it is noise. A prompt
    without a number has the mean of all logits.

    Args:
        column: of the data set, numbers in [0, 1] or None.
        others: what else prompts look like; None: nothing.
    """

    knows = True

    def __init__(self, column: str, others: Features | None) -> None:
        self.column, self.others = column, others
        self.lasting = others is None or others.lasting
        self.needs_policy = others is not None and others.needs_policy
        self.has_others = False

    def bind(self, table: PromptTable) -> bool:
        """Read the column.

        Raises:
            ConfigError: there is none, it has no number at all, or one that is no pass rate.
        """
        self.has_others = self.others is not None and self.others.bind(table)
        if table.rows is None:
            raise ConfigError(f"known={self.column} is a column: give the curriculum a `PromptSet` with rows")
        rates = table.column_of_rows(self.column)
        try:
            known_N = np.array([np.nan if rate is None else rate for rate in rates], np.float64)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the column {self.column!r} has a value that is no number: {error}") from None
        given = known_N[~np.isnan(known_N)]
        if not len(given):
            raise ConfigError(f"no prompt of the data set has a number in the column {self.column!r}")
        if given.min() < 0 or given.max() > 1:
            raise ConfigError(f"the column {self.column!r} has numbers that are no pass rates in [0, 1]")
        clipped_N = np.clip(known_N, LEAST, 1 - LEAST)
        logit_N = np.log(clipped_N / (1 - clipped_N))
        self.logit_N = np.nan_to_num(logit_N, nan=float(np.nanmean(logit_N)))
        return True

    def attach(self, policy: Policy) -> None:
        if self.others is not None:
            self.others.attach(policy)

    def blocks(self, width: int) -> Sequence[int]:
        return (*(self.others.blocks(width - 1) if self.others and self.has_others else ()), 1)

    def means(self, width: int) -> np.ndarray:
        """What the weights are believed to be at first, float64 (D,): 1 for the known rate."""
        return np.eye(1, width, width - 1)[0]

    def of(self, prompts: np.ndarray) -> np.ndarray:
        known_P1 = self.logit_N[prompts][:, None]
        if self.others is None or not self.has_others:
            return known_P1
        return np.concatenate([self.others.of(prompts), known_P1], axis=1)


class LatestRows:
    """The latest rows that were added, one after the other in memory.

    Args:
        most: how many are kept, K.
        width: of a row, D.
    """

    def __init__(self, most: int, width: int) -> None:
        self.most, self.end = most, 0
        # twice the room, so that rows move once in K additions
        self._room = np.empty((2 * most, width))

    @property
    def rows(self) -> np.ndarray:
        """Up to K rows, the latest last: float64 (at most K, D), until more are added."""
        return self._room[max(0, self.end - self.most) : self.end]

    def add(self, more_PD: np.ndarray) -> None:
        """Add rows; where they are over K, the last of them."""
        more_PD = more_PD[-self.most :]
        if self.end + len(more_PD) > len(self._room):
            kept = self.rows[len(more_PD) :]
            self._room[: len(kept)] = kept
            self.end = len(kept)
        self._room[self.end : self.end + len(more_PD)] = more_PD
        self.end += len(more_PD)

"""What a prompt's text looks like, in a few hundred numbers: what it is made of, and how long it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curro.prediction.text_kernels import count_texts

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

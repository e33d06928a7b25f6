"""What a prompt's text looks like, in a few hundred numbers: hashed counts of bytes, pairs and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

BLOCKS = BYTES, PAIRS, WORDS = 128, 128, 128
"""Features of each kind; powers of two."""

_LONGEST = 2048
_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x100000001B3, -1, 2**64))


def text_of(row: Mapping[str, Any]) -> str:
    """The text of a row's `prompt`; of messages, what is not the system's."""
    prompt = row["prompt"]
    if isinstance(prompt, str):
        return prompt
    return "\n".join(str(message["content"]) for message in prompt if message["role"] != "system")


def text_features(texts: Sequence[str]) -> np.ndarray:
    """log(1 + count) of the bytes, pairs of bytes and words of each text, float64 (P, D), hashed.

    Of a long text the first and the last 1,024 bytes are read. ASCII bytes have a feature each; pairs and
    words share theirs with others.
    """
    width = sum(BLOCKS)
    if not texts:
        return np.empty((0, width))
    raw = [_ends(text.encode("utf-8", "replace")) for text in texts]
    # a space before and after every text keeps pairs and words within it
    joined = np.frombuffer(b" " + b" ".join(raw) + b" ", np.uint8)
    row = np.repeat(np.arange(len(raw) + 1), [*(len(text) + 1 for text in raw), 1])
    space = joined <= 32
    inside = np.flatnonzero(~space)
    pairs = np.flatnonzero(~space[1:] | ~space[:-1])
    pair_code = joined[pairs].astype(np.uint64) * np.uint64(256) + joined[pairs + 1]
    starts, codes = _words(joined, space)
    slots = (
        (row[inside], joined[inside] % BYTES),
        (row[pairs + space[pairs]], BYTES + _hash(pair_code, PAIRS)),
        (row[starts], BYTES + PAIRS + _hash(codes, WORDS)),
    )
    flat = np.concatenate([rows * width + slot for rows, slot in slots])
    return np.log1p(np.bincount(flat, minlength=len(raw) * width)).reshape(len(raw), width)


def _ends(raw: bytes) -> bytes:
    half = _LONGEST // 2
    return raw if len(raw) <= _LONGEST else raw[:half] + raw[-half:]


def _words(joined: np.ndarray, space: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where words start, and a polynomial hash (mod 2^64) of each."""
    change = np.diff(space.astype(np.int8), prepend=np.int8(1), append=np.int8(1))
    starts, ends = np.flatnonzero(change == -1), np.flatnonzero(change == 1)
    power = np.cumprod(np.full(len(joined), _BASE))
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(joined * power)])
    inverse = np.cumprod(np.full(len(joined), _INVERSE))
    return starts, (total[ends] - total[starts]) * inverse[starts]


def _hash(codes: np.ndarray, size: int) -> np.ndarray:
    """Codes, uint64, spread over 0..size-1, a power of two."""
    mixed = (codes ^ (codes >> np.uint64(32))) * _MIX
    return (mixed >> np.uint64(64 - size.bit_length() + 1)).astype(np.int64)

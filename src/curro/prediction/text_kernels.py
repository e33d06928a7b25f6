"""Kernel of the text features: what each text is made of, counted in one pass over its bytes."""

import numpy as np

from curro.index.compiled import kernel, part

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

"""Kernel of the text features: what each text is made of, counted in one pass over its bytes."""

import numpy as np

from curro.index.compiled import kernel, part

_BASE, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_ZERO, _ONE, _S8, _S32, _S64 = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(32), 64
_SPACE = np.uint8(32)


@part
def _hash(code, bits):  # type: ignore[no-untyped-def]
    """A code, uint64, spread over 0 .. 2^bits - 1."""
    mixed = (code ^ (code >> _S32)) * _MIX
    return np.int64(mixed >> np.uint64(_S64 - bits))


@part
def _count(slot, counts, slots, size):  # type: ignore[no-untyped-def]
    before = counts[slot]
    slots[size] = slot  # stays if the slot is new; a branch would be guessed wrong every other time
    counts[slot] = before + 1
    return size + np.int64(before == 0)


@kernel
def count_texts(data, ends, bits, ramp, logs, start, slots, values):  # type: ignore[no-untyped-def]
    """Counts of the bytes, pairs of bytes and words of texts, 2^bits hashed columns each, and the lengths of
    the texts in bytes and words, a column each.

    Text t is data[ends[t - 1]:ends[t]]. A space before and after it keeps its pairs and words within it.
    `ramp` has the value of each count of a byte, `logs` of every other count, and a third of the value of a
    length. Fills `start`, `slots` and `values` of `SparseRows`; returns how many elements there are.
    """
    block = 1 << bits
    counts = np.zeros(3 * block, np.int64)
    begin, size = 0, 0
    for t in range(ends.size):
        before, word, power, words = _SPACE, _ZERO, _ONE, 0
        for i in range(begin, ends[t] + 1):
            byte = data[i] if i < ends[t] else _SPACE
            inside = byte > _SPACE
            if inside or before > _SPACE:
                code = (np.uint64(before) << _S8) + np.uint64(byte)
                size = _count(block + _hash(code, bits), counts, slots, size)
            if inside:
                size = _count(np.int64(byte) & (block - 1), counts, slots, size)
                word += np.uint64(byte) * power
                power *= _BASE
            elif before > _SPACE:
                size = _count(2 * block + _hash(word, bits), counts, slots, size)
                word, power, words = _ZERO, _ONE, words + 1
            before = byte
        for j in range(start[t], size):
            count = counts[slots[j]]
            values[j] = ramp[count] if slots[j] < block else logs[count]
            counts[slots[j]] = 0
        slots[size], values[size] = 3 * block, 3 * logs[ends[t] - begin]
        slots[size + 1], values[size + 1] = 3 * block + 1, 3 * logs[words]
        size += 2
        begin = ends[t]
        start[t + 1] = size
    return size

"""Kernels of the max-heap.

`record` holds two uint64 a slot: the key, recoded so that it orders as an integer, and the item, a random
tie-breaker above the id. The order is (key, item), which is total, so what comes out never depends on how
the heap lies in memory. The root is slot 1, the children of slot s are 2s and 2s + 1.

`by_id` holds two uint32 an id: its slot (0: absent) and how often it was pushed.
"""

import numpy as np

from curro.core.compiled import kernel, part
from curro.methods.index.mixing import GAMMA, another, mix64

TRIES = 256
"""Random ids that `pick` looks at for one draw."""

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_SIGN = np.uint64(1 << 63)
_ABSENT = np.uint64(0xFFF << 52)  # the bits of -inf
_S32, _S63 = np.uint64(32), np.uint64(63)


@part
def _above(key_a, item_a, key_b, item_b):  # type: ignore[no-untyped-def]
    return (key_a > key_b) | ((key_a == key_b) & (item_a > item_b))


@part
def _ordered(bits):  # type: ignore[no-untyped-def]
    """The bits of a float64 as an integer of the same order; -0.0 as 0.0."""
    if bits >> _S63:
        return ~bits if bits != _SIGN else _SIGN
    return bits | _SIGN


@part
def _set(record, by_id, s, key, item):  # type: ignore[no-untyped-def]
    record[s, 0], record[s, 1] = key, item
    by_id[np.int64(item & _LOW), 0] = s


@part
def _settle(record, by_id, s, count, key, item):  # type: ignore[no-untyped-def]
    """Put a record into slot s of `count`, or above it or below it, at its place."""
    while s > 1 and _above(key, item, record[s >> 1, 0], record[s >> 1, 1]):
        _set(record, by_id, s, record[s >> 1, 0], record[s >> 1, 1])
        s >>= 1
    while 2 * s <= count:
        c = 2 * s
        if c < count and _above(record[c + 1, 0], record[c + 1, 1], record[c, 0], record[c, 1]):
            c += 1
        if not _above(record[c, 0], record[c, 1], key, item):
            break
        _set(record, by_id, s, record[c, 0], record[c, 1])
        s = c
    _set(record, by_id, s, key, item)


@kernel
def put(record, by_id, salt, count, ids, bits):  # type: ignore[no-untyped-def]
    """Add or re-key ids in order, keys as bits of float64; -inf takes the id out. Returns the new count."""
    for a in range(ids.size):
        i = ids[a]
        s = np.int64(by_id[i, 0])
        if bits[a] != _ABSENT:
            by_id[i, 1] += 1
            pushes = np.uint64(by_id[i, 1]) << _S32
            item = (mix64((np.uint64(i) | pushes) * GAMMA + salt) & _HIGH) | np.uint64(i)
            if s == 0:
                count += 1
                s = np.int64(count)
            _settle(record, by_id, s, count, _ordered(bits[a]), item)
        elif s:
            by_id[i, 0] = 0
            count -= 1
            if s <= count:
                _settle(record, by_id, s, count, record[count + 1, 0], record[count + 1, 1])
    return count


@kernel
def pop(record, by_id, count, ids):  # type: ignore[no-untyped-def]
    """Take out as many of the highest as `ids` holds, the highest first; returns the new count."""
    for a in range(ids.size):
        ids[a] = np.int64(record[1, 1] & _LOW)
        by_id[ids[a], 0] = 0
        count -= 1
        if count:
            _settle(record, by_id, np.int64(1), count, record[count + 1, 0], record[count + 1, 1])
    return count


@kernel
def pick(by_id, uniform):  # type: ignore[no-untyped-def]
    """The first present of the random ids that a uniform stands for; -1 where TRIES find none."""
    for turn in range(TRIES):
        i = np.int64(another(uniform, turn) * by_id.shape[0])
        if by_id[i, 0]:
            return i
    return np.int64(-1)

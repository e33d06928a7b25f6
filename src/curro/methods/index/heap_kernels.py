"""Kernels of the max-heap: four children to a node, a cache line to the four, a batch in lock step.

`record` holds two uint64 a slot: the key, recoded so that it orders as an integer, and the item, a random
tie-breaker above the id. The order is (key, item), which is total, so what comes out never depends on how
the heap lies in memory. A slot that holds nothing has key 0, below every key. The root is slot 3, the
children of slot s are 4s-8 .. 4s-5.

`by_id` holds two uint32 an id: its slot (0: absent) and how often it was pushed.

Sinking one key down a heap waits for memory at each level. Keys that sink in separate subtrees need not
wait for one another: `_sink_round` moves each of them one level and asks for what each will need next.
"""

import numpy as np

from curro.core.compiled import kernel, part, prefetch
from curro.methods.index.mixing import GAMMA, another, mix64, unit

ROOT = 3
TAKEN = np.uint32(1 << 31)
"""Added to the slot of an id that `pick` has chosen, until it is taken out."""
TRIES = 256
"""Random ids that `pick` looks at for one draw before it counts through those present."""

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_SIGN = np.uint64(1 << 63)
_ABSENT = np.uint64(0xFFF << 52)  # the bits of -inf
_ZERO = np.uint64(0)
_S32, _S63 = np.uint64(32), np.uint64(63)
_AHEAD = 8


@part
def _above(key_a, item_a, key_b, item_b):  # type: ignore[no-untyped-def]
    return (key_a > key_b) | ((key_a == key_b) & (item_a > item_b))


@part
def _id(item):  # type: ignore[no-untyped-def]
    return np.int64(item & _LOW)


@part
def _ordered(bits):  # type: ignore[no-untyped-def]
    """The bits of a float64 as an integer of the same order; -0.0 as 0.0."""
    if bits >> _S63:
        return ~bits if bits != _SIGN else _SIGN
    return bits | _SIGN


@part
def _bits(ordered):  # type: ignore[no-untyped-def]
    return ordered ^ _SIGN if ordered >> _S63 else ~ordered


@part
def _hash(i, count, salt):  # type: ignore[no-untyped-def]
    """64 random bits for the `count`-th push of id `i`."""
    return mix64((np.uint64(i) | (np.uint64(count) << _S32)) * GAMMA + salt)


@part
def _put(record, by_id, s, key, item):  # type: ignore[no-untyped-def]
    record[2 * s] = key
    record[2 * s + 1] = item
    by_id[_id(item), 0] = s


@part
def _higher(record, a, b):  # type: ignore[no-untyped-def]
    """The slot of the two whose record is above; by arithmetic, for the outcome cannot be foretold."""
    above = _above(record[2 * b], record[2 * b + 1], record[2 * a], record[2 * a + 1])
    return a + (b - a) * np.int64(above)


@part
def _highest_of_four(record, c):  # type: ignore[no-untyped-def]
    return _higher(record, _higher(record, c, c + 1), _higher(record, c + 2, c + 3))


@part
def _sink_round(record, by_id, end, hole, keys, items, filled, count):  # type: ignore[no-untyped-def]
    """Move `count` holes down one level or fill them; returns how many are open, now in front.

    The slots of what moved are noted in a second pass, when their lines of `by_id` have come. `filled` is
    scratch.
    """
    flat = by_id.reshape(-1)
    open_holes = 0
    for a in range(count):
        s = hole[a]
        filled[a] = s
        c = 4 * s - 8
        key, item = keys[a], items[a]
        if c < end:
            best = _highest_of_four(record, c)
            best_key, best_item = record[2 * best], record[2 * best + 1]
            if _above(best_key, best_item, key, item):
                prefetch(record, 2 * (4 * best - 8))
                hole[open_holes], keys[open_holes], items[open_holes] = best, key, item
                open_holes += 1
                key, item = best_key, best_item
        record[2 * s], record[2 * s + 1] = key, item
        prefetch(flat, 2 * _id(item))
    for a in range(count):
        by_id[_id(record[2 * filled[a] + 1]), 0] = filled[a]
    return open_holes


@kernel
def put(record, by_id, salt, end, ids, bits):  # type: ignore[no-untyped-def]
    """Add or re-key ids in order, keys as bits of float64; -inf takes the id out. Returns the new end."""
    ahead = by_id.reshape(-1)
    for a in range(ids.size):
        if a + _AHEAD < ids.size:
            prefetch(ahead, 2 * ids[a + _AHEAD])
        i = ids[a]
        s = np.int64(by_id[i, 0] & ~TAKEN)
        if bits[a] != _ABSENT:
            key = _ordered(bits[a])
            by_id[i, 1] += 1
            item = (_hash(i, by_id[i, 1], salt) & _HIGH) | np.uint64(i)
            if s == 0:
                s = end
                end += 1
        elif s:
            by_id[i, 0] = 0
            end -= 1
            key, item = record[2 * end], record[2 * end + 1]
            record[2 * end] = _ZERO
            if s == end:
                continue
        else:
            continue
        while s > ROOT:
            p = (s >> 2) + 2
            if not _above(key, item, record[2 * p], record[2 * p + 1]):
                break
            _put(record, by_id, s, record[2 * p], record[2 * p + 1])
            s = p
        while 4 * s - 8 < end:
            best = _highest_of_four(record, 4 * s - 8)
            if not _above(record[2 * best], record[2 * best + 1], key, item):
                break
            _put(record, by_id, s, record[2 * best], record[2 * best + 1])
            s = best
        _put(record, by_id, s, key, item)
    return end


@kernel
def clocks(by_id, salt, now, ids, weights, out):  # type: ignore[no-untyped-def]
    """Keys -(now + E / weight) for the next push of each id, E exponential; -inf for weight 0."""
    for a in range(ids.size):
        i = ids[a]
        out[a] = -np.inf
        if weights[a] > 0.0:
            by_id[i, 1] += 1
            wait = -np.log(unit(_hash(i, by_id[i, 1], salt))) / weights[a]
            out[a] = -min(now + wait, np.finfo(np.float64).max)
    for a in range(ids.size):
        if weights[a] > 0.0:
            by_id[ids[a], 1] -= 1


@kernel
def pick(by_id, present, uniforms, first, out):  # type: ignore[no-untyped-def]
    """Choose one random id for each uniform from number `first` on, and mark it; returns the draws done.

    Each draw looks at random ids until one is present and not marked. A draw that finds none in TRIES stops
    the call and leaves in `out` the rank that it stands for among the ids left of `present`.
    """
    for a in range(first, uniforms.size):
        out[a] = -1
        for turn in range(TRIES):
            i = np.int64(another(uniforms[a], turn) * by_id.shape[0])
            if 0 < by_id[i, 0] < TAKEN:
                by_id[i, 0] |= TAKEN
                out[a] = i
                break
        if out[a] < 0:
            out[a] = np.int64(another(uniforms[a], TRIES) * (present - a))
            return a
    return uniforms.size


@kernel
def pop(record, by_id, end, ids, bits, slots, edge, slot, keys, items, filled, starts):  # type: ignore[no-untyped-def]
    """Take out as many of the highest as `ids` holds, the highest first; returns the new end.

    `edge` is a heap of slots, laid out like the heap itself and zero at first: of each family of four that
    has lost its parent, the highest that is left. What follows it is scratch.
    """
    k = ids.size
    flat = by_id.reshape(-1)
    edge[2 * ROOT], edge[2 * ROOT + 1], slot[ROOT] = record[2 * ROOT], record[2 * ROOT + 1], ROOT
    edge_end = ROOT + 1
    for a in range(k):
        s = slot[ROOT]
        item = record[2 * s + 1]
        slots[a], ids[a], bits[a] = s, _id(item), _bits(record[2 * s])
        by_id[ids[a], 0] = 0
        record[2 * s] = _ZERO
        sibling, child = _highest_of_four(record, s & ~3), s
        if 4 * s - 8 < end:
            child = _highest_of_four(record, 4 * s - 8)
        x = _higher(record, sibling, child)
        y = sibling + child - x
        x_key, x_item = record[2 * x], record[2 * x + 1]
        y_key, y_item = record[2 * y], record[2 * y + 1]
        for parent in (x, y):
            prefetch(record, 2 * (4 * parent - 8))
            prefetch(flat, 2 * _id(record[2 * parent + 1]))
        if x_key == _ZERO:
            edge_end -= 1
            x, x_key, x_item = slot[edge_end], edge[2 * edge_end], edge[2 * edge_end + 1]
            edge[2 * edge_end] = _ZERO
        f = ROOT
        while 4 * f - 8 < edge_end:
            g = _highest_of_four(edge, 4 * f - 8)
            if not _above(edge[2 * g], edge[2 * g + 1], x_key, x_item):
                break
            edge[2 * f], edge[2 * f + 1], slot[f] = edge[2 * g], edge[2 * g + 1], slot[g]
            f = g
        edge[2 * f], edge[2 * f + 1], slot[f] = x_key, x_item, x
        if y_key != _ZERO:
            f = edge_end
            edge_end += 1
            while f > ROOT:
                g = (f >> 2) + 2
                if not _above(y_key, y_item, edge[2 * g], edge[2 * g + 1]):
                    break
                edge[2 * f], edge[2 * f + 1], slot[f] = edge[2 * g], edge[2 * g + 1], slot[g]
                f = g
            edge[2 * f], edge[2 * f + 1], slot[f] = y_key, y_item, y
    _close(record, by_id, end, slots, edge, slot, keys, items, filled, starts)
    return end - k


@part
def _close(record, by_id, end, slots, spare, hole, keys, items, filled, starts):  # type: ignore[no-untyped-def]
    """Close the empty `slots`, a tree at the root, with the records from the end.

    From the deepest level up: when the holes of a level begin to sink, those from the level below it are
    two levels ahead and stay so.
    """
    after = end - slots.size
    spares = 0
    for s in range(after, end):
        if record[2 * s] != _ZERO:
            spare[2 * spares], spare[2 * spares + 1] = record[2 * s], record[2 * s + 1]
            record[2 * s] = _ZERO
            spares += 1
    starts[0] = ROOT
    level = 0
    while starts[level] < after:
        starts[level + 1] = 4 * starts[level] - 8
        level += 1
    count = np.int64(0)  # a literal would have `_sink_round` compiled twice
    while level > 0 or count > 0:
        if level > 0:
            level -= 1
            end_of_level = min(starts[level + 1], after)
            for a in range(slots.size):
                if starts[level] <= slots[a] < end_of_level:
                    spares -= 1
                    hole[count], keys[count], items[count] = (
                        slots[a],
                        spare[2 * spares],
                        spare[2 * spares + 1],
                    )
                    count += 1
        count = _sink_round(record, by_id, after, hole, keys, items, filled, count)

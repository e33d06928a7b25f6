"""Kernels of the max-heap: eight children to a node, moved in lock step.

A slot holds a key (float64) and an item (uint64: a random tie-breaker above, the id below). The order is
(key, item), which is total, so what comes out never depends on how the heap lies in memory.

* The root is slot 7, the children of slot s are 8s-48 .. 8s-41: one cache line of keys, one of items.
* Slots of a begun line that hold nothing have key -inf. `slot_of[id]` is 0 where the id is absent.
* Sinking one key down a heap waits for memory at each level. Keys that sink in separate subtrees wait
  together: `settle` moves them all one level, then all the next.
"""

import numpy as np

from curro.index.compiled import kernel
from curro.index.mixing import GAMMA, another, mix64, unit

ROOT = 7
TRIES = 256
"""Random ids that `pop_uniform` looks at for one draw before it counts through those present."""

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_S32 = np.uint64(32)
_CHUNK = 1024


@kernel
def _above(key_a, item_a, key_b, item_b):  # type: ignore[no-untyped-def]
    return (key_a > key_b) | ((key_a == key_b) & (item_a > item_b))


@kernel
def _id(item):  # type: ignore[no-untyped-def]
    return np.int64(item & _LOW)


@kernel
def _position(i, count):  # type: ignore[no-untyped-def]
    """Where the hash is read for the `count`-th push of id `i`."""
    return (np.uint64(i) | (np.uint64(count) << _S32)) * GAMMA


@kernel
def _put(key, item, slot_of, s, k, it):  # type: ignore[no-untyped-def]
    key[s] = k
    item[s] = it
    slot_of[_id(it)] = s


@kernel
def _begin_line(key, s):  # type: ignore[no-untyped-def]
    for j in range(s, s + 8):
        key[j] = -np.inf


@kernel
def _rise(key, item, slot_of, s, k, it):  # type: ignore[no-untyped-def]
    """Put (k, it) at slot s or, as far as it is above its ancestors, higher."""
    while s > ROOT:
        p = (s >> 3) + 6
        if not _above(k, it, key[p], item[p]):
            break
        _put(key, item, slot_of, s, key[p], item[p])
        s = p
    _put(key, item, slot_of, s, k, it)


@kernel
def _settle(key, item, slot_of, end, hole, k, it, count):  # type: ignore[no-untyped-def]
    """Sink (k[a], it[a]) from slot hole[a] for a < count; no hole lies below another."""
    while count > 0:
        left = 0
        for a in range(count):
            s = hole[a]
            c = 8 * s - 48
            if c < end:
                best = c
                best_key = key[c]
                best_item = item[c]
                for j in range(c + 1, c + 8):
                    up = _above(key[j], item[j], best_key, best_item)
                    best = j if up else best
                    best_key = key[j] if up else best_key
                    best_item = item[j] if up else best_item
                if _above(best_key, best_item, k[a], it[a]):
                    _put(key, item, slot_of, s, best_key, best_item)
                    hole[left] = best
                    k[left] = k[a]
                    it[left] = it[a]
                    left += 1
                    continue
            _put(key, item, slot_of, s, k[a], it[a])
        count = left


@kernel
def _place(key, item, slot_of, end, s, k, it, hole, ks, its):  # type: ignore[no-untyped-def]
    """Put (k, it) at slot s, or higher, or lower; hole, ks and its are scratch."""
    p = (s >> 3) + 6
    if s > ROOT and _above(k, it, key[p], item[p]):
        _rise(key, item, slot_of, s, k, it)
    else:
        hole[0] = s
        ks[0] = k
        its[0] = it
        _settle(key, item, slot_of, end, hole, ks, its, 1)


@kernel
def _add(key, item, slot_of, pushes, salt, end, i, k, hole, ks, its):  # type: ignore[no-untyped-def]
    """Add or re-key one id; the new end."""
    pushes[i] += 1
    it = (mix64(_position(i, pushes[i]) + salt) & _HIGH) | np.uint64(i)
    s = np.int64(slot_of[i])
    if s:
        _place(key, item, slot_of, end, s, k, it, hole, ks, its)
        return end
    if end & 7 == 0:
        _begin_line(key, end)
    _rise(key, item, slot_of, end, k, it)
    return end + 1


@kernel
def _remove(key, item, slot_of, end, i, hole, ks, its):  # type: ignore[no-untyped-def]
    """Take one present id out; the new end."""
    s = np.int64(slot_of[i])
    slot_of[i] = 0
    end -= 1
    k, it = key[end], item[end]
    key[end] = -np.inf
    if s != end:
        _place(key, item, slot_of, end, s, k, it, hole, ks, its)
    return end


@kernel
def push(key, item, slot_of, pushes, salt, end, ids, keys):  # type: ignore[no-untyped-def]
    """Add or re-key; returns the new end."""
    hole, ks, its = np.empty(1, np.int64), np.empty(1, np.float64), np.empty(1, np.uint64)
    for a in range(ids.size):
        end = _add(key, item, slot_of, pushes, salt, end, ids[a], keys[a], hole, ks, its)
    return end


@kernel
def race(key, item, slot_of, pushes, salt, clock_salt, now, end, ids, weights):  # type: ignore[no-untyped-def]
    """As `push`, with keys -(now + E / weight), E exponential; weight 0 takes the id out."""
    hole, ks, its = np.empty(1, np.int64), np.empty(1, np.float64), np.empty(1, np.uint64)
    for a in range(ids.size):
        i, w = ids[a], weights[a]
        if w > 0.0:
            wait = -np.log(unit(mix64(_position(i, pushes[i] + 1) + clock_salt))) / w
            clock = min(now + wait, np.finfo(np.float64).max)
            end = _add(key, item, slot_of, pushes, salt, end, i, -clock, hole, ks, its)
        elif slot_of[i]:
            end = _remove(key, item, slot_of, end, i, hole, ks, its)
    return end


@kernel
def discard(key, item, slot_of, end, ids):  # type: ignore[no-untyped-def]
    """Take out those of the ids that are present; returns the new end."""
    hole, ks, its = np.empty(1, np.int64), np.empty(1, np.float64), np.empty(1, np.uint64)
    for a in range(ids.size):
        if slot_of[ids[a]]:
            end = _remove(key, item, slot_of, end, ids[a], hole, ks, its)
    return end


@kernel
def pop_uniform(key, item, slot_of, size, end, uniforms, first, out):  # type: ignore[no-untyped-def]
    """Take out one random id for each uniform from number `first` on; returns (new end, draws done).

    Each draw looks at random ids until one is present. A draw that finds none in TRIES stops the call and
    leaves in `out` the rank that it stands for among the ids present.
    """
    hole, ks, its = np.empty(1, np.int64), np.empty(1, np.float64), np.empty(1, np.uint64)
    for a in range(first, uniforms.size):
        found = False
        for turn in range(TRIES):
            i = np.int64(another(uniforms[a], turn) * size)
            if slot_of[i]:
                found = True
                break
        if not found:
            out[a] = np.int64(another(uniforms[a], TRIES) * (end - ROOT))
            return end, a
        out[a] = i
        end = _remove(key, item, slot_of, end, i, hole, ks, its)
    return end, uniforms.size


@kernel
def heapify(key, item, slot_of, pushes, salt, ids, keys):  # type: ignore[no-untyped-def]
    """Fill an empty heap with distinct ids whose pushes are counted already; returns the end."""
    end = ROOT + ids.size
    for a in range(ids.size):
        i = ids[a]
        it = (mix64(_position(i, pushes[i]) + salt) & _HIGH) | np.uint64(i)
        _put(key, item, slot_of, ROOT + a, keys[a], it)
    for s in range(end, (end + 7) & ~7):
        key[s] = -np.inf
    hole = np.empty(_CHUNK, np.int64)
    ks, its = np.empty(_CHUNK, np.float64), np.empty(_CHUNK, np.uint64)
    parents = ROOT if ids.size < 2 else ((end - 1) >> 3) + 7
    while parents > ROOT:
        first = ROOT
        while 8 * first - 48 < parents:
            first = 8 * first - 48
        first = max(first, parents - _CHUNK)
        for s in range(first, parents):
            hole[s - first] = s
            ks[s - first] = key[s]
            its[s - first] = item[s]
        _settle(key, item, slot_of, end, hole, ks, its, parents - first)
        parents = first
    return end


@kernel
def pop(key, item, slot_of, end, ids, keys):  # type: ignore[no-untyped-def]
    """Take out as many of the highest as `ids` and `keys` hold, the highest first; returns the new end.

    They are found with a heap of the slots whose parents are out already. They are a tree at the root, so
    the holes they leave are closed level by level from below, each with a key from the end.
    """
    slots = _find_top(key, item, end, ids.size)
    for a in range(ids.size):
        s = slots[a]
        ids[a] = _id(item[s])
        keys[a] = key[s]
        slot_of[ids[a]] = 0
        key[s] = -np.inf
    _close(key, item, slot_of, end, slots)
    return end - ids.size


@kernel
def _find_top(key, item, end, k):  # type: ignore[no-untyped-def]
    room = min(7 * k + 9, end + 1)
    fk, fi, fs = np.empty(room, np.float64), np.empty(room, np.uint64), np.empty(room, np.int64)
    slots = np.empty(k, np.int64)
    fk[0], fi[0], fs[0] = key[ROOT], item[ROOT], ROOT
    count = 1
    for a in range(k):
        slots[a] = fs[0]
        c = 8 * fs[0] - 48
        last = min(c + 8, end)
        if c < last:
            k0, i0, s0 = key[c], item[c], c
        else:
            count -= 1
            k0, i0, s0 = fk[count], fi[count], fs[count]
        f = 0
        while True:
            g = 2 * f + 1
            if g >= count:
                break
            if g + 1 < count:
                g += _above(fk[g + 1], fi[g + 1], fk[g], fi[g])
            if not _above(fk[g], fi[g], k0, i0):
                break
            fk[f], fi[f], fs[f] = fk[g], fi[g], fs[g]
            f = g
        fk[f], fi[f], fs[f] = k0, i0, s0
        for s in range(c + 1, last):
            f = count
            count += 1
            while f > 0:
                g = (f - 1) >> 1
                if not _above(key[s], item[s], fk[g], fi[g]):
                    break
                fk[f], fi[f], fs[f] = fk[g], fi[g], fs[g]
                f = g
            fk[f], fi[f], fs[f] = key[s], item[s], s
    return slots


@kernel
def _close(key, item, slot_of, end, slots):  # type: ignore[no-untyped-def]
    """Close the holes at `slots`, a tree at the root whose keys are -inf already."""
    after = end - slots.size
    hole = np.empty(slots.size, np.int64)
    ks, its = np.empty(slots.size, np.float64), np.empty(slots.size, np.uint64)
    start = np.empty(16, np.int64)
    start[0] = ROOT
    levels = 0
    while start[levels] < after:
        start[levels + 1] = 8 * start[levels] - 48
        levels += 1
    tail = end
    for level in range(levels - 1, -1, -1):
        count = 0
        for a in range(slots.size):
            s = slots[a]
            if start[level] <= s < start[level + 1] and s < after:
                tail -= 1
                while key[tail] == -np.inf:
                    tail -= 1
                hole[count] = s
                ks[count] = key[tail]
                its[count] = item[tail]
                key[tail] = -np.inf
                count += 1
        _settle(key, item, slot_of, after, hole, ks, its, count)

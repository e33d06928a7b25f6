"""Kernels of the sum tree: eight children to a node, a cache line to the eight, a batch in lock step.

`tree` holds one level after another, the leaves first; `start[l]` is where level l begins, each a multiple
of eight wide, the last is the root alone. A node is the sum of its eight children and is always computed
again, never patched, so it cannot drift.

One walk down waits for memory at each level. The walks of a batch go down together, each asks for the line
it will need next, and none branches on what it finds.
"""

import numpy as np

from curro.core.compiled import kernel, part, prefetch
from curro.methods.index.mixing import another


@part
def _at(tree, c):  # type: ignore[no-untyped-def]
    return tree[np.uint64(c)]  # an unsigned index spares the check for a negative one


@part
def _sum8(tree, c):  # type: ignore[no-untyped-def]
    left = _at(tree, c) + _at(tree, c + 1) + (_at(tree, c + 2) + _at(tree, c + 3))
    right = _at(tree, c + 4) + _at(tree, c + 5) + (_at(tree, c + 6) + _at(tree, c + 7))
    return left + right


@kernel
def sum_above(tree, start, node, count):  # type: ignore[no-untyped-def]
    """The ancestors of the first `count` leaves in `node`, which is overwritten; narrow levels as a whole."""
    for level in range(1, start.size):
        below, start_here = start[level - 1], start[level]
        width = (start_here - below) >> 3
        if width <= count:
            for x in range(width):
                tree[start_here + x] = _sum8(tree, below + 8 * x)
        else:
            for a in range(count):
                x = node[a] >> 3
                node[a] = x
                tree[start_here + x] = _sum8(tree, below + 8 * x)


@kernel
def update(tree, start, size, largest, positive, ids, weights, node):  # type: ignore[no-untyped-def]
    """Set leaves, in order; returns how many leaves are positive now. `node` is scratch.

    Returns -1, and has changed nothing, where an id is not in 0..size-1 or a weight not in [0, largest].
    """
    for a in range(ids.size):
        if not (0 <= ids[a] < size and 0.0 <= weights[a] <= largest):
            return -1
    for a in range(ids.size):
        i = ids[a]
        positive += int(weights[a] > 0.0) - int(tree[i] > 0.0)
        tree[i] = weights[a]
        node[a] = i
    sum_above(tree, start, node, ids.size)
    return positive


@part
def _walk(tree, start, node, mass, count):  # type: ignore[no-untyped-def]
    """From the root to the leaves on which the first `count` masses fall: into `node`; `mass` is overwritten.

    The eight children are halved three times: where the mass is beyond the left half, the walk goes right,
    with what is left of the mass. Only rounding can lead it to a leaf of weight 0: see `_walk_again`.
    """
    for a in range(count):
        node[a] = 0
    for level in range(start.size - 2, -1, -1):
        first = start[level]
        below, width = (start[level - 1], 8) if level else (0, 1)
        for a in range(count):
            c = first + 8 * node[a]
            m = mass[a]
            left = _at(tree, c) + _at(tree, c + 1) + (_at(tree, c + 2) + _at(tree, c + 3))
            right = np.int64(m >= left)
            m -= right * left
            c += 4 * right
            left = _at(tree, c) + _at(tree, c + 1)
            right = np.int64(m >= left)
            m -= right * left
            c += 2 * right
            left = _at(tree, c)
            right = np.int64(m >= left)
            mass[a] = m - right * left
            node[a] = c + right - first
            prefetch(tree, below + width * node[a])


@part
def _walk_again(tree, start, mass):  # type: ignore[no-untyped-def]
    """One walk that enters positive children alone: the first that exceeds the mass, else the last."""
    node = 0
    for level in range(start.size - 2, -1, -1):
        c = start[level] + 8 * node
        running = 0.0
        before = 0.0
        for q in range(8):
            if tree[c + q] > 0.0:
                node = c + q - start[level]
                before = running
                running += tree[c + q]
                if mass < running:
                    break
        mass -= before
    return node


@kernel
def sample(tree, start, uniforms, ids, probabilities):  # type: ignore[no-untyped-def]
    """One leaf for each uniform, in proportion to weight; the total must be positive.

    Returns whether every uniform lies in [0, 1).
    """
    total = tree[start[-1]]
    for a in range(ids.size):
        if not (0.0 <= uniforms[a] < 1.0):
            return False
        probabilities[a] = uniforms[a] * total
    _walk(tree, start, ids, probabilities, ids.size)
    for a in range(ids.size):
        if tree[ids[a]] == 0.0:
            ids[a] = _walk_again(tree, start, uniforms[a] * total)
        probabilities[a] = tree[ids[a]] / total
    return True


@kernel
def are_free(taken, ids):  # type: ignore[no-untyped-def]
    """Whether no id is taken or stands twice; `taken` are flags, as before at the end."""
    fresh = 0
    while fresh < ids.size and not taken[ids[fresh]]:
        taken[ids[fresh]] = True
        fresh += 1
    for a in range(fresh):
        taken[ids[a]] = False
    return fresh == ids.size


@kernel
def draw_anew(tree, start, taken, taken_ids, again, ids, probabilities, node, held):  # type: ignore[no-untyped-def]
    """Go through the ids in order. Redraw each id that is already taken, with its number in `again`, and mark
    the result as taken.

    Those taken are out of the second draw. `taken` are flags, set for `taken_ids` alone; at the end tree and
    flags are as before. `node` and `held` are scratch for as many as `taken_ids` and `ids` together.
    """
    settled = -1
    for a in range(ids.size):
        if taken[ids[a]]:
            if settled < 0:
                settled = 0
                _empty(tree, start, taken_ids, node, held, ids.size)
            _empty(tree, start, ids[settled:a], node, held, settled)
            settled = a
            sample(tree, start, again[a : a + 1], ids[a : a + 1], held[a : a + 1])
        taken[ids[a]] = True
    for a in range(ids.size):
        taken[ids[a]] = False
    _fill(tree, start, ids[:settled], node, held, np.int64(0))
    _fill(tree, start, taken_ids, node, held, ids.size)
    for a in range(ids.size):
        probabilities[a] = tree[ids[a]] / tree[start[-1]]


@part
def _empty(tree, start, ids, node, held, at):  # type: ignore[no-untyped-def]
    for a in range(ids.size):
        held[at + a] = tree[ids[a]]
        tree[ids[a]] = 0.0
        node[a] = ids[a]
    sum_above(tree, start, node, ids.size)


@part
def _fill(tree, start, ids, node, held, at):  # type: ignore[no-untyped-def]
    for a in range(ids.size):
        tree[ids[a]] = held[at + a]
        node[a] = ids[a]
    sum_above(tree, start, node, ids.size)


@kernel
def sample_distinct(tree, start, uniforms, ids, weights, walk, mass):  # type: ignore[no-untyped-def]
    """Successive draws without replacement, as many as `ids` holds, and the weights of those drawn.

    The tree is as before at the end; `walk` and `mass` are scratch.

    Draws with replacement of which the repeated are passed over are successive draws without replacement.
    So a batch is walked at once, and in place of the repeated as many are drawn from a tree without those
    taken. A leaf that is taken is marked by its sign until its round is over.
    """
    taken, turn = 0, 0
    while True:
        count, before = ids.size - taken, taken
        total = tree[start[-1]]
        for a in range(count):
            mass[a] = (another(uniforms[a], turn) if turn else uniforms[a]) * total
        _walk(tree, start, walk, mass, count)
        for a in range(count):
            i = walk[a]
            if tree[i] == 0.0:
                i = _walk_again(tree, start, 0.0)
            if tree[i] > 0.0:
                ids[taken], weights[taken] = i, tree[i]
                tree[i] = -tree[i]
                taken += 1
        if taken == ids.size:
            break
        for a in range(before, taken):
            tree[ids[a]] = 0.0
            walk[a - before] = ids[a]
        sum_above(tree, start, walk, taken - before)
        turn += 1
    for a in range(ids.size):
        tree[ids[a]] = weights[a]
        walk[a] = ids[a]
    if turn:
        sum_above(tree, start, walk, before)

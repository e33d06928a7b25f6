"""Kernels of the sum tree: eight children to a node, a batch walked in lock step.

`tree` holds one level after another, the leaves first; `start[l]` is where level l begins, each on a cache
line of eight, the last is the root alone. A node is the sum of its eight children from left to right and
is always computed again, never patched, so it cannot drift.

One walk down waits for memory at each level; the walks of a batch wait together.
"""

import numpy as np

from curro.index.compiled import kernel
from curro.index.mixing import another


@kernel
def _sum8(tree, c):  # type: ignore[no-untyped-def]
    total = tree[c]
    for j in range(1, 8):
        total += tree[c + j]
    return total


@kernel
def _sum_level(tree, start, level):  # type: ignore[no-untyped-def]
    """Every node of a level again from its children."""
    below, here = start[level - 1], start[level]
    for x in range((here - below) >> 3):
        tree[here + x] = _sum8(tree, below + 8 * x)


@kernel
def build(tree, start):  # type: ignore[no-untyped-def]
    """Every level above the leaves; returns how many leaves are positive."""
    positive = 0
    for a in range(start[1]):
        positive += tree[a] > 0.0
    for level in range(1, start.size):
        _sum_level(tree, start, level)
    return positive


@kernel
def _sum_above(tree, start, node):  # type: ignore[no-untyped-def]
    """The ancestors of the leaves `node`, which is overwritten; narrow levels as a whole."""
    for level in range(1, start.size):
        below, here = start[level - 1], start[level]
        if (here - below) >> 3 <= node.size:
            _sum_level(tree, start, level)
        else:
            for a in range(node.size):
                x = node[a] >> 3
                node[a] = x
                tree[here + x] = _sum8(tree, below + 8 * x)


@kernel
def update(tree, start, positive, ids, weights):  # type: ignore[no-untyped-def]
    """Set leaves, in order; returns how many leaves are positive now."""
    for a in range(ids.size):
        positive += int(weights[a] > 0.0) - int(tree[ids[a]] > 0.0)
        tree[ids[a]] = weights[a]
    _sum_above(tree, start, ids.copy())
    return positive


@kernel
def _walk(tree, start, node, mass):  # type: ignore[no-untyped-def]
    """From the root to the leaves where `mass` falls; `node` comes back as leaves.

    A child of sum 0 is never entered: the first child whose running sum exceeds the mass is positive, and
    where rounding carries the mass beyond the last child, the last positive one is taken.
    """
    node[:] = 0
    for level in range(start.size - 2, -1, -1):
        for a in range(node.size):
            c = start[level] + 8 * node[a]
            m = mass[a]
            running = tree[c]
            before = 0.0
            j = 0
            for q in range(1, 8):
                beyond = m >= running
                before = running if beyond else before
                j += beyond
                running += tree[c + q]
            if m >= running:
                j = 7
                while tree[c + j] == 0.0:
                    j -= 1
                mass[a] = np.inf
            else:
                mass[a] = m - before
            node[a] = 8 * node[a] + j


@kernel
def sample(tree, start, uniforms, ids, probabilities):  # type: ignore[no-untyped-def]
    """One leaf for each uniform, in proportion to weight; the total must be positive."""
    total = tree[start[-1]]
    for a in range(uniforms.size):
        probabilities[a] = uniforms[a] * total
    _walk(tree, start, ids, probabilities)
    for a in range(ids.size):
        probabilities[a] = tree[ids[a]] / total


@kernel
def sample_distinct(tree, start, uniforms, ids, probabilities):  # type: ignore[no-untyped-def]
    """Successive draws without replacement, as many as `ids` holds; the tree is as before at the end.

    Draws with replacement of which the repeated are passed over are successive draws without replacement.
    So a batch is walked at once, and in place of the repeated as many are drawn from a tree without those
    taken. A leaf that is taken is marked by its sign until its round is over.
    """
    total = tree[start[-1]]
    weights = np.empty(ids.size, np.float64)
    walk, mass = np.empty(ids.size, np.int64), np.empty(ids.size, np.float64)
    taken, turn = 0, 0
    while True:
        count = ids.size - taken
        rest = tree[start[-1]]
        for a in range(count):
            mass[a] = (another(uniforms[a], turn) if turn else uniforms[a]) * rest
        _walk(tree, start, walk[:count], mass[:count])
        before = taken
        for a in range(count):
            weight = tree[walk[a]]
            if weight > 0.0:
                tree[walk[a]] = -weight
                weights[taken] = weight
                ids[taken] = walk[a]
                taken += 1
        if taken == ids.size:
            break
        for a in range(before, taken):
            tree[ids[a]] = 0.0
        _sum_above(tree, start, ids[before:taken].copy())
        turn += 1
    for a in range(ids.size):
        tree[ids[a]] = weights[a]
        probabilities[a] = weights[a] / total
    if turn:
        _sum_above(tree, start, ids[:before].copy())

"""Kernels of the sum tree.

`tree` holds one level after another, the leaves first; `start[l]` is where level l begins, each a multiple
of eight wide, the last is the root alone. A node is the sum of its eight children and is always computed
again, never patched, so it cannot drift.
"""

from curro.core.compiled import kernel, part


@kernel
def sum_above(tree, start, node):  # type: ignore[no-untyped-def]
    """Sum up the ancestors of the leaves in `node`, which is overwritten; narrow levels as a whole."""
    for level in range(1, start.size):
        below, start_here = start[level - 1], start[level]
        width = (start_here - below) >> 3
        is_narrow = width <= node.size
        for a in range(width if is_narrow else node.size):
            if not is_narrow:
                node[a] >>= 3
            x = a if is_narrow else node[a]
            c = below + 8 * x
            left = tree[c] + tree[c + 1] + (tree[c + 2] + tree[c + 3])
            tree[start_here + x] = left + (tree[c + 4] + tree[c + 5] + (tree[c + 6] + tree[c + 7]))


@part
def _walk(tree, start, mass):  # type: ignore[no-untyped-def]
    """From the root to the leaf on which a mass falls.

    The eight children are halved three times: where the mass is beyond the left half, the walk goes right,
    with what is left of the mass. Only rounding can lead it to a leaf of weight 0: see `_walk_again`.
    """
    node = 0
    for level in range(start.size - 2, -1, -1):
        c = start[level] + 8 * node
        left = tree[c] + tree[c + 1] + (tree[c + 2] + tree[c + 3])
        if mass >= left:
            mass -= left
            c += 4
        left = tree[c] + tree[c + 1]
        if mass >= left:
            mass -= left
            c += 2
        if mass >= tree[c]:
            mass -= tree[c]
            c += 1
        node = c - start[level]
    return node


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
def sample(tree, start, masses, ids):  # type: ignore[no-untyped-def]
    """The leaf on which each mass below the total falls; the total must be positive."""
    for a in range(ids.size):
        ids[a] = _walk(tree, start, masses[a])
        if tree[ids[a]] == 0.0:
            ids[a] = _walk_again(tree, start, masses[a])

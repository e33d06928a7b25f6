"""The kernel of prioritized prompt sampling: how large a group's advantages are."""

import numpy as np

from curro.index.compiled import kernel

LAST, MEAN, MAX = 0, 1, 2


@kernel
def sizes(values, scored, centre, kind, out):  # type: ignore[no-untyped-def]
    """|value - centre| of each group's scored rollouts: of the last, on average, or the largest.

    Every group has a scored rollout.
    """
    for p in range(values.shape[0]):
        total, largest, count = 0.0, 0.0, 0
        for g in range(values.shape[1] - 1, -1, -1):
            if scored[p, g]:
                size = np.abs(values[p, g] - centre[p])
                total += size
                largest = max(largest, size)
                count += 1
                if kind == LAST:
                    break
        out[p] = largest if kind == MAX else total / count

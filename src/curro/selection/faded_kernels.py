"""The kernel of faded replay: who gets which proposal."""

from curro.index.compiled import kernel


@kernel
def one_each(proposed, drawn, taken, chosen):  # type: ignore[no-untyped-def]
    """A proposal a row: the highest draw, the first of equals, that is neither taken nor an earlier row's.

    Where all are, the next free prompt after the last proposal. `taken` are flags, as before at the end.
    """
    for row in range(proposed.shape[0]):
        best = -1
        for c in range(proposed.shape[1]):
            if not taken[proposed[row, c]] and (best < 0 or drawn[row, c] > drawn[row, best]):
                best = c
        pick = proposed[row, best]
        while taken[pick]:
            pick = (pick + 1) % taken.size
        chosen[row] = pick
        taken[pick] = True
    for row in range(proposed.shape[0]):
        taken[chosen[row]] = False

"""Which of many random prompts are candidates: free, and each once."""

from curro.index.compiled import kernel


@kernel
def keep_free(in_flight, drawn, kept, count):  # type: ignore[no-untyped-def]
    """Append to kept[:count] those of `drawn` that are neither in flight nor there yet, in order.

    The prompts of `kept` are marked as in flight, until `unmark`. Returns how many `kept` has then.
    """
    for a in range(drawn.size):
        if count == kept.size:
            break
        if not in_flight[drawn[a]]:
            in_flight[drawn[a]] = True
            kept[count] = drawn[a]
            count += 1
    return count


@kernel
def unmark(in_flight, kept):  # type: ignore[no-untyped-def]
    """Take back the marks of `keep_free`."""
    for a in range(kept.size):
        in_flight[kept[a]] = False

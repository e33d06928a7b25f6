"""The kernel of the self-evolving curriculum: draws of categories, and of free prompts within them."""

from curro.index.compiled import kernel


@kernel
def draw(uniforms, weight, free, held, start, length, category, place, probability):  # type: ignore[no-untyped-def]
    """For every row of `uniforms` a category in proportion to `weight`, then one of its free places.

    A category whose last place was drawn counts nothing any more. The places 0, 1, ... of category c that are
    not free stand ascending in held[start[c] : start[c] + length[c]], which has room for those drawn.
    """
    total = 0.0
    for c in range(weight.size):
        total += weight[c] if free[c] else 0.0
    for a in range(uniforms.shape[0]):
        wanted, below, chosen = uniforms[a, 0] * total, 0.0, -1
        for c in range(weight.size):
            if free[c]:
                chosen = c
                below += weight[c]
                if wanted < below:
                    break
        category[a], probability[a] = chosen, weight[chosen] / total / free[chosen]
        k = int(uniforms[a, 1] * free[chosen])
        first, low, high = start[chosen], 0, length[chosen]
        while low < high:
            middle = (low + high) >> 1
            if held[first + middle] - middle <= k:
                low = middle + 1
            else:
                high = middle
        for b in range(length[chosen], low, -1):
            held[first + b] = held[first + b - 1]
        held[first + low] = place[a] = k + low
        length[chosen] += 1
        free[chosen] -= 1
        if not free[chosen]:
            total = 0.0
            for c in range(weight.size):
                total += weight[c] if free[c] else 0.0

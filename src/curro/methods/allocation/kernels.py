"""The kernels of allocation: what N rollouts of a prompt are worth, and how to spend a budget on P prompts.

A value V(N) here is concave from some N on. Before that it may lie under the straight line from its lower
bound, as where a first rollout alone has no gradient. So its concave hull is one straight piece, from the
lower bound to where that is steepest, and then V itself. To take the steepest pieces of all hulls is optimal
but for one prompt, whose straight piece may not fit into what is left. There dynamic programming takes over:
it looks at the prompts for which another N loses less than the gap between the hulls' value and that of the
best solution known.
"""

import numpy as np

from curro.core.compiled import kernel, part


@kernel
def both_outcomes(a_P, b_P, value_PN):  # type: ignore[no-untyped-def]
    """E[(1 - p^N - (1-p)^N) p (1-p)^2] under Beta(a, b) for N = 0, 1, ...; 0 for N = 0."""
    for i in range(a_P.size):
        a, b = a_P[i], b_P[i]
        total = a + b
        worth = a * b * (b + 1) / (total * (total + 1) * (total + 2))
        all_right, all_wrong = worth, worth
        value_PN[i, 0] = 0.0
        for n in range(1, value_PN.shape[1]):
            # E[p^(n+1) (1-p)^2] and E[p (1-p)^(n+2)] from those of n - 1
            scale = 1.0 / (total + n + 2)
            all_right *= (a + n) * scale
            all_wrong *= (b + n + 1) * scale
            value_PN[i, n] = worth - all_right - all_wrong


@kernel
def solve(value_PN, least, budget):  # type: ignore[no-untyped-def]
    """The N (P,) from `least` that sum to `budget` and have the highest total value, int64.

    Also whether it is sure that no prompt would get more if the values of more rollouts were known.

    Exact where it is enough to move 4 `most` rollouts, and at least 128, between prompts after the steepest
    pieces were taken; what more could gain is less than one prompt's straight piece.
    """
    count, most = value_PN.shape[0], value_PN.shape[1] - 1
    slope_PN, top_P = np.empty(value_PN.shape), np.empty(count, np.int64)
    for i in range(count):
        top_P[i] = _hull(value_PN[i], least, slope_PN[i])
    lagrange_P, price = _steepest(slope_PN, least, budget)
    best_P = lagrange_P.copy()
    left = budget - best_P.sum()
    for i in range(count):
        while left > 0 and best_P[i] < most and slope_PN[i, best_P[i] + 1] == price:
            take = min(left, max(top_P[i] - best_P[i], 1))
            best_P[i] += take
            left -= take
    gap, sure = 0.0, True
    for i in range(count):
        gap += _loss(value_PN[i], lagrange_P[i], best_P[i], price)
    if gap > 1e-12 * abs(price):
        _improve(value_PN, least, budget - lagrange_P.sum(), price, gap, lagrange_P, best_P)
    for i in range(count):
        beyond = _loss(value_PN[i], lagrange_P[i], most, price) < gap
        sure = sure and top_P[i] < most and lagrange_P[i] < most and best_P[i] < most and not beyond
    return best_P, sure


@part
def _hull(value_N, least, slope_N):  # type: ignore[no-untyped-def]
    """Write the hull's slopes from `least` on, slope_N[n] of the step to n; returns where its line ends."""
    top, steepest = least, -np.inf
    for n in range(least + 1, value_N.size):
        slope = (value_N[n] - value_N[least]) / (n - least)
        if slope < steepest:
            break
        top, steepest = n, slope
    slope_N[: least + 1] = np.inf
    slope_N[least + 1 : top + 1] = steepest
    for n in range(top + 1, value_N.size):
        # rounding must not let a later step stand above an earlier one
        slope_N[n] = min(value_N[n] - value_N[n - 1], slope_N[n - 1])
    return top


@part
def _steepest(slope_PN, least, budget):  # type: ignore[no-untyped-def]
    """The N (P,) by the steps that are steeper than the price, and the price: the slope of the next step."""
    count, most = slope_PN.shape[0], slope_PN.shape[1] - 1
    few_P, many_P = np.full(count, least), np.full(count, most)
    between_P = np.empty(count, np.int64)
    # a value is at most 1: no step is steeper, and all are steeper than -1
    cheap, dear = -1.0, 1.0
    while few_P.sum() < budget and few_P.sum() < many_P.sum():
        middle = 0.5 * (cheap + dear)
        if middle <= cheap or middle >= dear:
            break
        for i in range(count):
            between_P[i] = _steps_above(slope_PN[i], few_P[i], many_P[i], middle)
        if between_P.sum() > budget:
            cheap, many_P, between_P = middle, between_P, many_P
        else:
            dear, few_P, between_P = middle, between_P, few_P
    price = -np.inf
    for i in range(count):
        if few_P[i] < most:
            price = max(price, slope_PN[i, few_P[i] + 1])
    return few_P, price if price > -np.inf else 0.0


@part
def _steps_above(slope_N, low, high, price):  # type: ignore[no-untyped-def]
    """The largest n in [low, high] whose step is steeper than the price; `low` itself is known to be."""
    while low < high:
        middle = (low + high + 1) >> 1
        if slope_N[middle] > price:
            low = middle
        else:
            high = middle - 1
    return low


@part
def _loss(value_N, lagrange, n, price):  # type: ignore[no-untyped-def]
    """What n loses against the best N at this price."""
    return max((value_N[lagrange] - price * lagrange) - (value_N[n] - price * n), 0.0)


@part
def _improve(value_PN, least, wanted, price, gap, lagrange_P, best_P):  # type: ignore[no-untyped-def]
    """Move rollouts between prompts, `wanted` more in all than in `lagrange_P`, at the smallest total loss.

    Every solution that is better than the known one loses less than `gap` in all, so it differs from
    `lagrange_P` only in steps that lose less than that each. Row r of the table has the least loss after r
    prompts for every sum of their steps.
    """
    most = value_PN.shape[1] - 1
    reach = max(2 * most, 64)
    rows = np.empty(value_PN.shape[0], np.int64)
    count = 0
    for i in range(value_PN.shape[0]):
        for n in range(least, most + 1):
            if n != lagrange_P[i] and _loss(value_PN[i], lagrange_P[i], n, price) < gap:
                rows[count] = i
                count += 1
                break
    lost, step = np.full(2 * reach + 1, np.inf), np.zeros((count, 2 * reach + 1), np.int16)
    lost[reach] = 0.0
    for r in range(count):
        i = rows[r]
        before = lost.copy()
        for n in range(least, most + 1):
            shift, loss = n - lagrange_P[i], _loss(value_PN[i], lagrange_P[i], n, price)
            if shift == 0 or loss >= gap:
                continue
            for state in range(max(0, shift), min(lost.size, lost.size + shift)):
                total = before[state - shift] + loss
                if total < lost[state] and total < gap:
                    lost[state], step[r, state] = total, shift
    state = reach + wanted
    if state < lost.size and lost[state] < gap:
        best_P[:] = lagrange_P
        for r in range(count - 1, -1, -1):
            best_P[rows[r]] += step[r, state]
            state -= step[r, state]

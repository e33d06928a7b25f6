"""Kernels of the port: what every batch goes through, each one pass over it.

A batch of groups is small: in NumPy its twenty operations cost their twenty calls, and a table of a million
prompts is waited for once a column. One loop asks for all columns at once.
"""

import numpy as np

from curro.core.compiled import kernel, part


@kernel
def find(tickets, wanted, rows, met):  # type: ignore[no-untyped-def]
    """The rows of `wanted` among the ascending `tickets`; `met`, all False at first, is set at each of them.

    Returns -1; or the place of the first that is not there; or, where all are, as many as are wanted if one
    stands twice.
    """
    outcome = -1
    for a in range(wanted.size):
        # they are distinct: a ticket stands no further from the first than their numbers differ
        low, high = 0, -1
        if tickets.size and wanted[a] >= tickets[0]:
            high = min(wanted[a] - tickets[0], tickets.size - 1)
        while low < high and tickets[high] != wanted[a]:
            middle = (low + high) >> 1
            if tickets[middle] < wanted[a]:
                low = middle + 1
            else:
                high = middle
        if high < 0 or tickets[high] != wanted[a]:
            return a
        if met[high]:
            outcome = wanted.size
        rows[a], met[high] = high, True
    return outcome


@kernel
def claim(in_flight, prompts, repeats):  # type: ignore[no-untyped-def]
    """Mark these prompts as in flight.

    Returns -1; or the place of the first that is no prompt or, unless they may repeat, is in flight or came
    before: then nothing is marked.
    """
    for a in range(prompts.size):
        if not (0 <= prompts[a] < in_flight.size):
            return a
    for a in range(prompts.size):
        if in_flight[prompts[a]] and not repeats:
            for b in range(a):
                in_flight[prompts[b]] = False
            return a
        in_flight[prompts[a]] = True
    return -1


@kernel
def moments(rewards, scored, limit, mean, variance):  # type: ignore[no-untyped-def]
    """Mean and population variance of the scored rewards of each group; 0 where there are none.

    Returns -1, or the number of the first scored reward that is not within +-limit.
    """
    for p in range(rewards.shape[0]):
        count, lowest = 0, np.inf
        for g in range(rewards.shape[1]):
            if scored[p, g]:
                reward = rewards[p, g]
                if not (abs(reward) <= limit):
                    return p * rewards.shape[1] + g
                lowest = reward if reward < lowest else lowest
                count += 1
        if count == 0:
            mean[p] = variance[p] = 0.0
            continue
        above, spread = 0.0, 0.0
        for g in range(rewards.shape[1]):
            if scored[p, g]:
                above += rewards[p, g] - lowest
        centre = lowest + above / count
        for g in range(rewards.shape[1]):
            if scored[p, g]:
                spread += (rewards[p, g] - centre) * (rewards[p, g] - centre)
        mean[p], variance[p] = centre, spread / count
    return -1


@kernel
def centre(rewards, scored, mean, centred):  # type: ignore[no-untyped-def]
    """Rewards less the mean of their group, 0 where a rollout was not scored."""
    for p in range(rewards.shape[0]):
        for g in range(rewards.shape[1]):
            centred[p, g] = rewards[p, g] - mean[p] if scored[p, g] else 0.0


@kernel
def visit(visited, prompts, steps, mean, variance):  # type: ignore[no-untyped-def]
    """Note in the prompt table what became of these prompts, in order."""
    for a in range(prompts.size):
        row = visited[prompts[a]]
        row.visits += 1
        row.last_step = steps[a]
        row.reward_mean = mean[a]
        row.reward_variance = variance[a]


@part
def is_solved(mean, variance, low, high, flat):  # type: ignore[no-untyped-def]
    """`PromptTable.is_solved` of a group; `flat` is the largest variance without signal."""
    return variance <= flat and (mean - low) / (high - low) >= 0.5


@kernel
def census(visited, low, high, flat):  # type: ignore[no-untyped-def]
    """Summarise the prompts seen so far.

    Returns how many there are, how many are solved and how many have no signal, and their mean success rate,
    its standard deviation, and their mean reward variance. `flat` is the largest variance without signal.
    """
    seen, solved, without = 0, 0, 0
    rates, variances, squares = 0.0, 0.0, 0.0
    for p in range(visited.size):
        row = visited[p]
        if row.visits > 0:
            rate = (row.reward_mean - low) / (high - low)
            seen += 1
            without += row.reward_variance <= flat
            solved += is_solved(row.reward_mean, row.reward_variance, low, high, flat)
            rates += rate
            variances += row.reward_variance
    for p in range(visited.size):
        if visited[p].visits > 0:
            squares += ((visited[p].reward_mean - low) / (high - low) - rates / seen) ** 2
    count = max(seen, 1)
    return seen, solved, without, rates / count, np.sqrt(squares / count), variances / count

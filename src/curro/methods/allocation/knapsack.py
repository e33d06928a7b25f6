"""Knapsack: rollouts go where they are most likely to make a gradient that teaches something new."""

from __future__ import annotations

from curro.methods.allocation.bounds import Bounded


class Knapsack(Bounded):
    """Rollouts go where they are most likely to make a gradient that is worth much, within bounds.

    What is maximised, exactly, is the sum over prompts of E[(1 - p^N - (1-p)^N) p (1-p)^2].
    Here 1 - p^N - (1-p)^N is the probability that N rollouts have both outcomes,
    so that the group has a gradient; p (1-p)^2 is what that gradient is worth, p(1-p) times the room 1-p that
    is left above. The paper puts in the success rate that it saw last; here the expectation is over what is
    believed of p, so that a prompt about which little is known is not written off for one failed group.

    Source: "Knapsack RL" (arXiv 2509.25849).

    Args:
        least, most: rollouts of a prompt; with 0 a prompt may get none, although it was chosen.

    Raises:
        ConfigError: not 0 <= least <= most; when called, a budget that the bounds cannot spend.
    """

    value = "both_outcomes"

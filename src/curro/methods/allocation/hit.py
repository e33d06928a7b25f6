"""Hit: rollouts go where one more is most likely to be the first success."""

from __future__ import annotations

from curro.methods.allocation.bounds import Bounded


class Hit(Bounded):
    """Rollouts go where one more is most likely to be the first success, within bounds.

    What is maximised is the expected number of prompts with a success, the sum of 1 - E[(1-p)^N].

    Source: "HORA" (arXiv 2605.07114), with the posterior of the selection in place of its own.

    Args:
        least, most: rollouts of a prompt.

    Raises:
        ConfigError: not 0 <= least <= most; when called, a budget that the bounds cannot spend.
    """

    value = "one_success"

"""The order in which groups are learnt from: that of their prompts, whatever order they came in."""

from __future__ import annotations

import numpy as np


def by_prompt(groups_RK: np.ndarray) -> np.ndarray:
    """What is kept of K groups (R, K) in ascending order of the first row, which is the prompt.

    Where a prompt stands more than once, the rows after it decide, in their order. Sums over the groups then
    do not depend on which of them came in first.
    """
    prompt_K = groups_RK[0]
    order_K = prompt_K.argsort()
    # a sort by all rows takes several times as long, and it is rare that a batch has a prompt twice
    if (np.diff(prompt_K[order_K]) == 0).any():
        order_K = np.lexsort(groups_RK[::-1])
    return groups_RK.take(order_K, axis=1)

"""Only the best groups of those rolled out: the fill tops the batch up with them.

Tested with the fill in TRL and in the filler. On the lab's hard pools it ends at 0.110, uniform sampling at
0.316 (two seeds), because all rollouts count.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from curro.core.bases import Gate
from curro.core.groups import Groups


class Best(Gate):
    """The groups of the highest reward variance among all that the fill's limit allows.

    Source: LILO (OpenReview 8HYeWMf0W3); "top-k" in RAGEN-2.

    No group is admitted by itself. So the fill rolls out as many batches as its limit says and tops the batch
    up with the groups whose rewards vary the most: with a limit of 4, a quarter of what was rolled out. The
    fill has to be one that tops up.
    """

    needs_top_up: ClassVar = True

    def __call__(self, groups: Groups) -> np.ndarray:
        return np.zeros(len(groups.prompts), np.bool_)

"""Leave-one-out advantages (RLOO)."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Advantage
from curro.core.groups import Groups


class LeaveOneOut(Advantage):
    """Each reward less the mean of the other rewards of its group (RLOO).

    Source: Kool et al. 2019; Ahmadian et al. 2024, equation 8.

    The baseline does not depend on the rollout, so the gradient is unbiased. A group of equal rewards, or
    with one scored rollout, gets advantages of zero.
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        count_P = np.maximum(groups.count, 2)
        return groups.centred() * (count_P / (count_P - 1))[:, None]

"""Groups without signal stay out: the zero-variance filter."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Gate
from curro.core.groups import Groups


class Signal(Gate):
    """Groups whose rewards are not all equal, which is dynamic sampling.

    Source: DAPO (Yu et al. 2025), section 3.2.

    """

    def __call__(self, groups: Groups) -> np.ndarray:
        return ~self.table.is_flat(groups.variance)

"""Groups without signal stay out: the zero-variance filter."""

from __future__ import annotations

import numpy as np

from curro.core.bases import Gate
from curro.core.errors import ConfigError
from curro.core.groups import Groups


class Signal(Gate):
    """Groups whose rewards are not all equal, which is dynamic sampling.

    Source: DAPO (Yu et al. 2025), section 3.2.

    Args:
        tolerance: 0/1 groups with p <= tolerance or p >= 1 - tolerance count as equal, and other groups
            of no more variance (`PromptTable.is_flat`).

    Raises:
        ConfigError: a tolerance outside [0, 0.5).
    """

    def __init__(self, tolerance: float = 0.0) -> None:
        if not 0 <= tolerance < 0.5:
            raise ConfigError(f"tolerance is in [0, 0.5), not {tolerance}")
        self.tolerance = tolerance

    def __call__(self, groups: Groups) -> np.ndarray:
        return ~self.table.is_flat(groups.variance, self.tolerance)

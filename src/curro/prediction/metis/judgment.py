"""What the policy answered: the predicted variance read from it, and the reward that it earns."""

from __future__ import annotations

import re

import numpy as np

LARGEST = 0.25
"""The largest variance of rewards in [0, 1] (METIS, section 3)."""

_NUMBER = re.compile(r"\s{0,8}([0-9]{1,3}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})\s{0,8}\}")


def read_prediction(text: str) -> float:
    """The number in the last `\\boxed{}` of an answer; NaN where the judgment failed.

    "METIS", section 4.1: an answer fails without a boxed number, or with one outside [0, 1/4]. The last box
    decides, also where an earlier one would do (appendix B.4). The text is hostile: it is only matched.
    """
    _, found, rest = text.rpartition("\\boxed{")
    number = _NUMBER.match(rest) if found else None
    value = float(number[1]) if number else np.nan
    return value if value <= LARGEST else np.nan


def judgment_reward(predicted: np.ndarray, realised: np.ndarray) -> np.ndarray:
    """(8): R = 1 - (4 (v_hat - v))^2, in [0, 1] for variances in [0, 1/4]; arrays of one shape."""
    return 1 - np.square(4 * (predicted - realised))

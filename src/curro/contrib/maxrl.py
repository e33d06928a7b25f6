"""MaxRL: the group-relative advantage over the group's success rate, so that rare successes count more.

Tested by hand and against the truncated likelihood of three rollouts (tests/contrib). Tuned on the lab's
pools it ends -0.016 ± 0.028 beside `group` (benchmarks/results/tuned_credits.md).
"""

from __future__ import annotations

import numpy as np

from curro.core.bases import Advantage
from curro.core.groups import Groups


class MaxRL(Advantage):
    """Each reward less the mean of its group, over that mean: a rare success counts more.

    Source: "Maximum Likelihood Reinforcement Learning" (MaxRL, arXiv 2602.02710).

        A_i = (r_i - m) / m,    m the mean of the group; 0 where m is 0

    The mean over a group of A_i times the score of rollout i is the mean score of the successes less that of
    all rollouts, and 0 without a success. For N 0/1 rewards its expectation is the gradient of the first N -
    1 terms of log p = -sum_k (1-p)^k / k. The group-relative advantage follows the first term alone, up to a
    factor. For other rewards m is counted from the lower end of the reward range. Where the signal is a part
    of the reward, the m below the line is the mean of the signal: a rare success then counts more whatever
    the other parts are, and a group without one has advantages of 0.

    A group's advantages have the mean square (1-m)/m for 0/1 rewards, at most N - 1. Groups of equal rewards
    get advantages of zero.
    """

    def __call__(self, groups: Groups) -> np.ndarray:
        above_P = self.signal(groups).mean - self.table.reward_range[0]
        return groups.centred() / np.where(above_P > 0, above_P, np.inf)[:, None]

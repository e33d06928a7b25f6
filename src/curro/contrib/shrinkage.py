"""A baseline between the mean of a group and the mean of other groups, which small groups gain by.

Tested by hand from the authors' formulas and resumed (tests/contrib). Tuned on the lab's pools it ends
-0.035 ± 0.058 beside `group` (benchmarks/results/tuned_credits.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.bases import Advantage
from curro.core.checkpoint import check_state
from curro.core.errors import ConfigError
from curro.core.groups import Groups


class Shrinkage(Advantage):
    """Each reward less a mix of the mean of its group's other rollouts and the mean of other prompts' groups.

    Source: "Shrinking the Variance: Shrinkage Baselines for RLVR" (arXiv 2511.03710), after James and Stein,
    as the authors' code `jspo` has it.

    For a prompt, let m_j be the means of the groups of other prompts, n_j their sizes and u_j the unbiased
    variances of their rewards. Then

        mu = mean_j m_j    v = mean_j u_j / n_j    s = mean_j (m_j - mu)^2    lambda = v / (v + s)
        A_i = r_i - (1 - lambda) mean(r_k, k != i) - lambda mu

    The baseline of a rollout does not contain its own reward, and lambda nothing of its group, so that the
    gradient is unbiased. v is what chance adds to the mean of a group and s how far prompts are apart: where
    groups are small, or prompts alike, the mean of the others counts more. A group of equal rewards has the
    advantage lambda (r - mu), so that groups without variance push too.

    The paper's other prompts come from the batch. Here they come from the same call of `observe`, and,
    if these are fewer than `groups`, the latest before them. Hosts that observe single groups, as they
    finish, thus have others to compare with; the paper is silent on those. With fewer than two others lambda
    is 0, which is `leave-one-out`. A group with fewer than two scored rollouts has advantages of 0, and
    counts for no other.

    Args:
        groups: how many groups are compared with, at least. 0 takes the call's alone.

    Raises:
        ConfigError: a negative number.
    """

    def __init__(self, *, groups: int = 64) -> None:
        if groups < 0:
            raise ConfigError(f"groups is a number from 0, not {groups}")
        self.groups = groups
        # the prompt, the mean and the variance of the mean of earlier groups
        self.recent_3K = np.empty((3, 0))

    def __call__(self, groups: Groups) -> np.ndarray:
        count_P = groups.count
        usable_P = count_P >= 2
        others_P = np.maximum(count_P - 1, 1)
        # u / n is the population variance over n - 1
        new_3P = np.array([groups.prompts, groups.mean, groups.variance / others_P])[:, usable_P]
        earlier = max(self.groups - new_3P.shape[1], 0)
        pool_3K = np.concatenate([_latest(self.recent_3K, earlier), new_3P], axis=1)
        self.recent_3K = _latest(pool_3K, self.groups)
        lambda_P, mu_P = self._mixed(pool_3K, groups.prompts)
        left_out_PG = groups.centred() * (count_P / others_P)[:, None]
        from_others_PG = np.where(groups.scored, groups.rewards - mu_P[:, None], 0.0)
        advantages_PG = (1 - lambda_P)[:, None] * left_out_PG + lambda_P[:, None] * from_others_PG
        return np.where(usable_P[:, None], advantages_PG, 0.0)

    @staticmethod
    def _mixed(pool_3K: np.ndarray, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lambda and mu (P,) of these prompts, from the groups of the pool that are of other prompts."""
        lambda_P, mu_P = np.zeros((2, len(prompts)))
        for p, prompt in enumerate(prompts.tolist()):
            _, mean_J, variance_J = pool_3K[:, pool_3K[0] != prompt]
            if len(mean_J) >= 2:
                mu_P[p], v, s = mean_J.mean(), variance_J.mean(), mean_J.var()
                lambda_P[p] = v / (v + s) if v > 0 else 0.0
        return lambda_P, mu_P

    def state_dict(self) -> dict[str, Any]:
        return {"recent": self.recent_3K.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        recent_3K = state["recent"]
        check_state(
            len(recent_3K) == 3 and np.isfinite(recent_3K).all(), "advantage/recent", "is not of groups"
        )
        self.recent_3K = recent_3K.copy()


def _latest(groups_3K: np.ndarray, number: int) -> np.ndarray:
    """The last groups, so many at most."""
    return groups_3K[:, max(groups_3K.shape[1] - number, 0) :]

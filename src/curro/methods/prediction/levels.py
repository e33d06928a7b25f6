"""What past outcomes say of a level: success rates and reward variances of arms, whose problems are all new.

An arm of `curro.data.levels` is not a prompt that comes back: every visit is of another problem, and the
arm is visited many times a step. So `LevelPosterior` stands in the place of `FadedPosterior`, which is of
single prompts. It differs in three ways: several groups of an arm are learnt at once; the variance that is
predicted is that within a group, because a level of easy and impossible problems has a success rate of 1/2
and no signal; and the prior of an arm comes from the parameters of its level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.errors import ConfigError
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.prompts import PromptTable
from curro.methods.prediction.logistic_regression import LogisticRegression

LEVEL_HALF_LIVES = 2.0 ** np.arange(1, 9)
"""Candidate half-lives of the evidence, in training steps."""
WINDOW = 512
"""Groups of later steps after which a group counts no more for the regression."""
PRIOR_GROUPS = 2.0
"""Groups that the prior of an arm counts as."""
ROWS = ("arm", "step", "size", "rate", "variance")
"""Of groups that are kept: the arm, the step of its draw, the rollouts, their mean and variance."""


class LevelPosterior:
    """The success rate and the within-group variance of every arm, learnt from the groups of all arms.

    With n groups of an arm, faded by 2^(-steps / H), whose mean rates have the mean m and whose unbiased
    variances have the mean s,

        rate        (k mu + n m) / (k + n),               k = 2 groups
        variance    (k f mu (1 - mu) + n s) / (k + n),    f the share of p(1-p) that lies within groups

    mu is what a logistic regression on the arm's features (`Levels.features_ND`) predicts. It is fitted to
    the latest groups, with the weight 1 - L / 512 where L groups are of later steps: the groups of one step
    count the same, and all of the latest step count. Before the first fit mu is 1/2 for all arms. So a level
    that was never tried is predicted from those that were: when those before it become solved, its rate
    rises, and it is chosen in their place.

    H is the member of `LEVEL_HALF_LIVES` under which the mean rates of groups were predicted with the
    smallest squared error, each before it was learnt. What was observed since the last call of `learn` is
    learnt together (`UnlearnedGroups`).

    Args:
        half_life: H in training steps; None: learnt.
    """

    low, high = 0.0, 1.0

    def __init__(self, half_life: float | None = None) -> None:
        if half_life is not None and not half_life > 0:
            raise ConfigError(f"half_life is a number of training steps above 0, not {half_life}")
        self.fixed = half_life
        self.half_lives_H = LEVEL_HALF_LIVES if half_life is None else np.array([float(half_life)])

    def bind(self, table: PromptTable) -> None:
        assert table.levels is not None
        self.table = table
        self.features_ND = table.levels.features_ND
        self.regression = LogisticRegression(table.levels.blocks)
        # of each half-life and arm: how many groups count, and the sums of their rates and variances
        self.sums_3HN = np.zeros((3, len(self.half_lives_H), table.size))
        self.losses_H = np.zeros(len(self.half_lives_H))
        self.clock = 0
        self.unlearned = UnlearnedGroups(len(ROWS))
        self.recent = np.empty((len(ROWS), 0))

    @property
    def half_life(self) -> float:
        """H, the training steps after which evidence counts half."""
        return float(self.half_lives_H[self._best])

    @property
    def _best(self) -> int:
        # before anything is known, the middle one
        return int(np.argmin(self.losses_H)) if self.losses_H.any() else len(self.half_lives_H) // 2

    def observe(self, outcome: Groups) -> None:
        """Keep finished groups for `learn`."""
        low, high = self.table.reward_range
        size_P = np.maximum(outcome.count, 1)
        unbiased_P = outcome.variance / (high - low) ** 2 * size_P / np.maximum(size_P - 1, 1)
        rate_P = np.clip(self.table.success_rate(outcome.mean), 0.0, 1.0)
        self.unlearned.add(outcome.prompts, outcome.steps, size_P, rate_P, unbiased_P)

    def learn(self) -> None:
        """Add what was observed since the last call to the evidence, and fit the regression."""
        if not self.unlearned:
            return
        latest = self.unlearned.take()
        arm_P, rate_P, variance_P = latest[0].astype(np.int64), latest[3], latest[4]
        now = max(self.clock, int(latest[1].max()))
        self.sums_3HN *= 0.5 ** ((now - self.clock) / self.half_lives_H)[:, None]
        self.clock = now
        if self.recent.size:
            predicted_HP = self._rates(self.sums_3HN, self._prior(arm_P), arm_P)
            self.losses_H += np.square(predicted_HP - rate_P).sum(axis=1)
        for total_HN, values_P in zip(self.sums_3HN, (np.ones(len(arm_P)), rate_P, variance_P), strict=True):
            total_HN += np.bincount(arm_P, values_P, self.table.size)
        known = np.concatenate([self.recent, latest], axis=1)
        known = known[:, np.lexsort(known[[4, 3, 2, 0, 1]])]  # by step, then by arm and by outcome
        later_K = known.shape[1] - np.searchsorted(known[1], known[1], side="right")
        self.recent = known[:, later_K < WINDOW]
        weight_K = 1 - later_K[later_K < WINDOW] / WINDOW
        arms_K = self.recent[0].astype(np.int64)
        self.regression.fit(self.features_ND[arms_K], self.recent[3], weight_K * self.recent[2])

    def _prior(self, prompts: np.ndarray) -> np.ndarray:
        """mu of these arms."""
        if not self.recent.size:
            return np.full(len(prompts), 0.5)
        return np.clip(self.regression.predict(self.features_ND[prompts]), 1e-3, 1 - 1e-3)

    def _rates(self, sums_3HN: np.ndarray, mu_P: np.ndarray, arm_P: np.ndarray) -> np.ndarray:
        """The rates (H, P) of these arms under every half-life."""
        return (PRIOR_GROUPS * mu_P + sums_3HN[1][:, arm_P]) / (PRIOR_GROUPS + sums_3HN[0][:, arm_P])

    @property
    def within(self) -> float:
        """f, the share of p(1-p) that lies within groups: of all recent groups; 1 before there are any."""
        _, _, _, rate_K, variance_K = self.recent
        arms_K = self.recent[0].astype(np.int64)
        if not len(rate_K):
            return 1.0
        count_N = np.bincount(arms_K, minlength=self.table.size)
        mean_N = np.bincount(arms_K, rate_K, self.table.size) / np.maximum(count_N, 1)
        total = float((mean_N * (1 - mean_N))[arms_K].sum())
        return float(np.clip(variance_K.sum() / total, 0.05, 1.0)) if total > 0 else 1.0

    def combine(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """What is believed of arms (P,) at this step, float64 (4, P).

        The rows are the concentration in groups k + n, the rate, the variance within a group, and the share
        of the concentration that is evidence.
        """
        kept = 0.5 ** (max(step - self.clock, 0) / self.half_life)
        count_P, rate_P, variance_P = kept * self.sums_3HN[:, self._best, prompts]
        mu_P, total_P = self._prior(prompts), PRIOR_GROUPS + count_P
        prior_P = PRIOR_GROUPS * self.within * mu_P * (1 - mu_P)
        return np.array(
            [
                total_P,
                (PRIOR_GROUPS * mu_P + rate_P) / total_P,
                (prior_P + variance_P) / total_P,
                count_P / total_P,
            ]
        )

    def expected(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """The expected informativeness (P,), in squared reward ranges, and the share of evidence."""
        return self.combine(prompts, step)[2]

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Successes and failures (P,) of a Beta distribution of the success rate of an arm's problems.

        Its variance is the variance of rates between problems, rate (1 - rate) less the variance within.
        """
        _, rate_P, variance_P, _ = self.combine(prompts, step)
        rate_P = np.clip(rate_P, 1e-3, 1 - 1e-3)
        share_P = np.clip(variance_P / (rate_P * (1 - rate_P)), 0.05, 0.98)
        strength_P = share_P / (1 - share_P)
        return strength_P * rate_P, strength_P * (1 - rate_P)

    def draw(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A random draw of each arm's variance within groups (P,), and the share of evidence (P,)."""
        _, rate_P, variance_P, kept_P = self.combine(prompts, step)
        drawn_P, rate_P = self.draw_rate(prompts, step, rng), np.clip(rate_P, 1e-6, 1 - 1e-6)
        return drawn_P * (1 - drawn_P) * variance_P / (rate_P * (1 - rate_P)), kept_P

    def draw_rate(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
        """A random draw of each arm's success rate (P,), from as many successes as it has had groups."""
        total_P, rate_P, _, _ = self.combine(prompts, step)
        rate_P = np.clip(rate_P, 1e-6, 1 - 1e-6)
        return rng.beta(total_P * rate_P, total_P * (1 - rate_P))

    def metrics(self) -> dict[str, float]:
        return {"posterior/half_life": self.half_life, "posterior/within": self.within}

    def state_dict(self) -> dict[str, Any]:
        return {
            "sums": self.sums_3HN.copy(),
            "losses": self.losses_H.copy(),
            "clock": self.clock,
            "unlearned": self.unlearned.groups.copy(),
            "recent": self.recent.copy(),
            "regression": self.regression.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in ("sums", "losses", "unlearned", "recent"):
            check_state(np.isfinite(state[name]).all(), f"posterior/{name}", "is not finite")
        sums, losses = state["sums"], state["losses"]
        check_state(sums.shape == self.sums_3HN.shape, "posterior/sums", "are not of these arms")
        check_state(losses.shape == self.losses_H.shape, "posterior/losses", "is not of the half-lives")
        for name in ("unlearned", "recent"):
            groups = state[name]
            are_groups = len(groups) == len(ROWS) and groups[1].min(initial=0) >= 0
            check_state(are_groups and groups[2].min(initial=1) >= 1, f"posterior/{name}", "is not of groups")
            check_prompt_numbers(groups[0], self.table.size, f"posterior/{name}")
        check_state(sums[0].min() >= 0 and state["clock"] >= 0, "posterior/sums", "are below 0")
        self.sums_3HN, self.losses_H, self.clock = sums.copy(), losses.copy(), int(state["clock"])
        self.unlearned.load(state["unlearned"], "posterior/unlearned", self.table.size)
        self.recent = state["recent"].copy()
        self.regression.load_state_dict(state["regression"])

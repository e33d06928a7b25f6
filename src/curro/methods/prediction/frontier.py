"""Frontier: predict a prompt's success rate from its features and from its own past outcomes.

A logistic regression predicts the prior of each prompt from its features, so that outcomes of one prompt
carry over to others. docs/frontier.md works one prompt out by hand, from its prior to the draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.errors import require
from curro.core.policy import Policy, PolicyUse
from curro.core.prompts import PromptTable
from curro.methods.prediction.features import Features
from curro.methods.prediction.logistic_regression import LogisticRegression
from curro.methods.prediction.posterior import NARROW, WIDE, FadedPosterior

PRIOR_ROLLOUTS = 4.0
"""How many rollouts the prior of a prompt's features counts as before the variance within groups is known."""
WINDOW, REFIT = 512, 4
"""The regressions are fitted to the latest WINDOW groups, again after every REFIT new ones."""


class FeaturePosterior(FadedPosterior):
    """A `FadedPosterior` with a prior Beta(k mu, k (1 - mu)) for each prompt, which its features tell.

    Source: curro's own.

        mu = the success rate that a logistic regression predicts
        v  = the variance of the rewards within a group that a second one predicts, at most 1/4
        t  = f mu (1 - mu),    f = t_0 / (mu_0 (1 - mu_0)) of the prior of all prompts; f = 1 for 0/1 rewards
        k  = v / (t - v), in [0.05, 50]

    For 0/1 rewards v = E[p(1-p)] = k / (k + 1) mu (1 - mu), so k follows from mu and v. Prompts that look
    alike, half of them always solved and half never, have mu = 1/2, v = 0 and a small k: one group says what
    its prompt is. Where such prompts are solved half of the time, v is near 1/4 and k large.

    Both regressions are fitted to the latest 512 groups. For mu the r-th latest, of G rollouts, counts as
    (1 - r / 512) G / (1 + (G - 1) / 5) trials, because rollouts of one prompt are correlated. The second one
    is fitted to four times the unbiased variance s G / (G - 1), with the weight 1 - r / 512. It also reads
    the logit of 3.2 mu (1 - mu), four times the variance for k = 4, with the prior weight 1.

    Until the first fit, after 4 groups, and without features in the table, `FadedPosterior` gives the prior.
    Known pass rates make the prior from the first choice on, with k = 4.

    Args:
        thompson, half_life: `FadedPosterior`'s.
        prior_rollouts: k of all prompts, above 0; None: the second regression predicts it, and is
            left out otherwise.
        features: "text"; "entropy", how sure the policy is of its first two tokens (`Features`), for
            which a host has to lend the policy; "text+entropy"; or "" for `known` alone.
        known: a column of the data set with pass rates known before training (`Features`).

    Raises:
        ConfigError: an option that is none of these; a column that is missing, or not of pass rates.
    """

    needs_second_visits = False
    remembered = (*FadedPosterior.remembered, "recent", "new", "is_fitted")

    def __init__(
        self,
        *,
        thompson: bool = False,
        half_life: float | None = None,
        prior_rollouts: float | None = None,
        features: str = "text",
        known: str | None = None,
    ) -> None:
        super().__init__(thompson=thompson, half_life=half_life)
        is_count = prior_rollouts is None or prior_rollouts > 0
        require(is_count, "prior_rollouts", "a number of rollouts above 0", prior_rollouts)
        self.features, self.prior_rollouts = Features(features, known), prior_rollouts
        if self.features.needs_policy:
            self.policy_use = PolicyUse.ASKED

    def attach(self, policy: Policy) -> None:
        super().attach(policy)
        self.features.attach(policy)

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.features.bind(table)
        width = self.features.width
        # one for means, and one for variances, which reads one feature more
        last_E = np.eye(1, width + 1, width)[0]
        self.regressions = LogisticRegression(self.features.means), LogisticRegression(last_E)
        # rows of each group: prompt, size, mean and variance
        self.recent = np.empty((4, 0))
        self.rows_KD = np.empty((0, width))
        self.new = 0
        self.is_fitted = False

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        if not len(prompts) or not (self.is_fitted or self.features.known):
            return self.prior
        return self._prior_from_features(self.features.of(prompts))

    def _prior_from_features(self, features_PD: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The prior of the prompts with these features: means, variances of one reward and k, (P,) each."""
        means, variances = self.regressions
        mu, t, _ = self.prior
        span = self.high - self.low
        rate = np.clip((mu - self.low) / span, 1e-6, 1 - 1e-6)
        predicted_P = np.clip(means.predict(features_PD), 1e-4, 1 - 1e-4)
        t_P = t * predicted_P * (1 - predicted_P) / (rate * (1 - rate))
        k_P = np.full(len(features_PD), self.prior_rollouts or PRIOR_ROLLOUTS)
        if self.is_fitted and self.prior_rollouts is None:
            v_P = span**2 / 4 * variances.predict(_with_variance(features_PD, predicted_P))
            # v / t = k / (k + 1)
            share_P = np.clip(v_P / t_P, NARROW / (NARROW + 1), WIDE / (WIDE + 1))
            k_P = share_P / (1 - share_P)
        return self.low + span * predicted_P, t_P, k_P

    def _fit_to_groups(
        self, prompts: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        if not self.features.width or not len(prompts):
            return
        self.recent = np.concatenate([self.recent, [prompts, size, mean, variance]], axis=1)[:, -WINDOW:]
        self.rows_KD = np.concatenate([self.rows_KD, self.features.of(prompts)])[-WINDOW:]
        self.new += len(prompts)
        if self.new >= REFIT:
            self._fit()

    def _fit(self) -> None:
        _, size_K, mean_K, variance_K = self.recent
        span, features_KD = self.high - self.low, self.rows_KD
        means, variances = self.regressions
        latest_K = 1 - np.arange(len(size_K))[::-1] / WINDOW
        trials_K = latest_K * size_K / (1 + (size_K - 1) / (PRIOR_ROLLOUTS + 1))
        means.fit(features_KD, np.clip((mean_K - self.low) / span, 0, 1), trials_K)
        weight_K = np.where(size_K > 1, latest_K, 0.0)
        if weight_K.any() and self.prior_rollouts is None:
            unbiased_K = variance_K * size_K / np.maximum(size_K - 1, 1)
            read_KE = _with_variance(features_KD, means.predict(features_KD))
            variances.fit(read_KE, np.clip(4 * unbiased_K / span**2, 0, 1), weight_K)
        self.new, self.is_fitted = 0, True

    def state_dict(self) -> Any:
        return super().state_dict() | {
            name: regression.state_dict() for name, regression in self._fitted().items()
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        recent = self.recent
        are_groups = len(recent) == 4 and recent.shape[1] <= WINDOW and np.isfinite(recent).all()
        check_state(are_groups and recent[1].min(initial=1) >= 1, "posterior/recent")
        check_prompt_numbers(recent[0], self.table.size, "posterior/recent")
        for name, regression in self._fitted().items():
            regression.load_state_dict(state[name])
        if recent.shape[1]:
            self.rows_KD = self.features.of(recent[0].astype(np.int64))

    def _fitted(self) -> dict[str, LogisticRegression]:
        """The regressions by their names in a state, which has them from the first fit on."""
        return dict(zip(("means", "variances"), self.regressions, strict=True)) if self.is_fitted else {}


def _with_variance(features_PD: np.ndarray, rate_P: np.ndarray) -> np.ndarray:
    """Features (P, D + 1), the last one of which is the logit of 3.2 p (1 - p)."""
    variance_P = np.clip(3.2 * rate_P * (1 - rate_P), 0.004, 0.99)
    return np.concatenate([features_PD, np.log(variance_P / (1 - variance_P))[:, None]], axis=1)

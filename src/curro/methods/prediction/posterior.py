"""What a prompt's own past outcomes say of its next ones: a posterior whose evidence fades as the policy
moves. It is the predictor of `posterior`, and what prioritized replay and the knapsack read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curro.core.bases import Predictor
from curro.core.checkpoint import check_state
from curro.core.errors import require
from curro.core.groups import Groups, UnlearnedGroups
from curro.core.prompts import PromptTable

HALF_LIVES = 2.0 ** np.arange(1, 13)
"""Candidate half-lives of the evidence, in training steps."""
MOMENTS = ("low", "high", "prior_visits", "prior_mean", "prior_square", "prior_within")
_WINDOW = 512
NARROW, WIDE = 0.05, 50.0
"""The prior counts as this many rollouts at least and at most."""


class FadedPosterior(Predictor):
    """A Beta posterior of each prompt's success rate, with a learnt prior and a learnt half-life.

    Source: "Model Predictive Prompt Selection" (arXiv 2507.04632) draws from such posteriors, with a prior of
    (1, 1) and a fixed share of the evidence kept at each visit; the fading and the prior are curro's.

    The evidence of a prompt is the count n, mean m and variance s of its rewards; the count halves every H
    training steps. It is combined with a prior of mean mu and concentration k, shared by all
    prompts, as in a Dirichlet process with n observations:

        K = k + n        mean M = (k mu + n m) / K
        T = (k t + n s + k n / K (m - mu)^2) / K            the variance of one reward
        E[informativeness] = T K / (K + 1)                  ab / ((a+b)(a+b+1)) for 0/1 rewards

    For 0/1 rewards this is the Beta posterior Beta(K M, K (1 - M)) exactly; for other rewards, scaled to
    [0, 1] by the reward range, or by a wider one if rewards lie beyond it, it has the right mean and expected
    variance. All numbers are success rates.

    The prior's moments come from about the last 512 visits, each weighed by k / (k + n), the share that the
    prior had in the prediction, so that the prior follows the policy even when no prompt is new. A group of
    one rollout says nothing about the spread of rewards and is left out of the prior.

    H is the member of `HALF_LIVES` under which the group means of all repeated visits were most likely, by a
    normal density with the posterior's predictive mean and variance. Where the policy has moved on evidence
    fades, and a prompt that was never solved becomes like any unknown prompt again.

    `observe` only keeps groups, and `learn` takes in new ones since its last call (`UnlearnedGroups`).

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: H in training steps, above 0; None: learnt. Evidence that fades by a factor d in each step
            has H = log(1/2) / log(d).

    Raises:
        ConfigError: a half-life that is not above 0.
    """

    needs_second_visits = True
    remembered: tuple[str, ...] = (*MOMENTS, "losses", "unlearned")

    def __init__(self, *, thompson: bool = True, half_life: float | None = None) -> None:
        is_time = half_life is None or half_life > 0
        require(is_time, "half_life", "a number of training steps above 0", half_life)
        self.thompson, self.fixed = thompson, half_life
        self.posterior = self

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        names = ("evidence_count", "evidence_mean", "evidence_variance")
        self.count, self.mean, self.variance = (table.add(name, np.float32, 0) for name in names)
        self.low, self.high = 0.0, 1.0
        self.prior_visits = 1.0
        # one pseudo-visit of a prompt whose success rate is uniform on [0, 1]
        self.prior_mean, self.prior_square, self.prior_within = 1 / 2, 1 / 2, 1 / 6
        # rows of each group: prompt, age of the evidence, size, mean, variance, lowest and highest rate
        self.unlearned = UnlearnedGroups(7, table.size)
        self.losses = np.zeros(len(HALF_LIVES))

    @property
    def half_life(self) -> float:
        """Training steps after which evidence counts half."""
        if self.fixed is not None:
            return self.fixed
        return float(HALF_LIVES[np.argmin(self.losses)]) if self.losses.any() else 64.0

    @property
    def prior(self) -> tuple[float, float, float]:
        """The prior of all prompts: its mean mu, the variance t of one reward, and its concentration k."""
        total = max(self.prior_square - self.prior_mean**2, 1e-9 * (self.high - self.low) ** 2)
        between = max(total - self.prior_within, total / (1 + WIDE))
        return (
            float(self.prior_mean),
            float(total),
            min(max(float(self.prior_within / between), NARROW), WIDE),
        )

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        """The prior of each of these prompts; here all prompts share one."""
        return self.prior

    def combine(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """K, M and T of prompts (P,), and the share of their evidence that still counts, float64 (4, P)."""
        age = (step - self.table["last_step"][prompts]).astype(np.float64)
        n, m, s = self._evidence_of(prompts)
        kept = np.where(n > 0, np.exp2(-age / self.half_life), 0.0)
        return np.stack([*mixture(*self.prior_of(prompts), n * kept, m, s), kept])

    def _evidence_of(self, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The count, mean and variance of each prompt's evidence, float64 (P,) each, before it fades."""
        n, m, s = (column[prompts].astype(np.float64) for column in (self.count, self.mean, self.variance))
        return n, m, s

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Successes and failures of the Beta distribution of each prompt's success rate, in rewards seen."""
        concentration, mean = self.combine(prompts, step)[:2]
        rate = self._rate(mean)
        return concentration * rate, concentration * (1 - rate)

    def _rate(self, mean: np.ndarray) -> np.ndarray:
        """Means as fractions of the range of rewards seen, within (0, 1)."""
        return np.clip((mean - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        self.learn()
        return self.draw(prompts, step)[0] if self.thompson else self.expected(prompts, step)

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        self.learn()
        if self.thompson:
            return self.low + (self.high - self.low) * self._draw(prompts, step)[0]
        return self.combine(prompts, step)[1]

    def draw(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw informativeness from the posteriors of prompts (P,), in squared reward ranges.

        The success rate p is drawn; p(1-p) is scaled by what part of it the rewards of such prompts really
        vary (all of it for 0/1 rewards). Returns also the share (P,) of the evidence that still counts.
        """
        p, rate, variance, kept = self._draw(prompts, step)
        return p * (1 - p) * variance / (rate * (1 - rate)), kept

    def _draw(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, ...]:
        """A draw of the success rate and its mean, as fractions of the range; T; and what still counts."""
        concentration, mean, variance, kept = self.combine(prompts, step)
        rate = self._rate(mean)
        return self.rng.beta(concentration * rate, concentration * (1 - rate)), rate, variance, kept

    def expected(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """The expected informativeness (P,) of each prompt at this step, in squared reward ranges."""
        concentration, _, variance, _ = self.combine(prompts, step)
        return variance * concentration / (concentration + 1)

    def observe(self, outcome: Groups) -> None:
        """Keep finished groups for `learn`; before the table's `last_step` is set to their visit."""
        rate = self.table.success_rate
        lowest = np.where(outcome.scored, outcome.rewards, np.inf).min(axis=1)
        highest = np.where(outcome.scored, outcome.rewards, -np.inf).max(axis=1)
        self.unlearned.add(
            outcome.prompts,
            np.maximum(outcome.steps - self.table["last_step"][outcome.prompts], 0),
            outcome.count,
            rate(outcome.mean),
            self.table.informativeness(outcome.variance),
            rate(lowest),
            rate(highest),
        )

    def learn(self) -> np.ndarray:
        """Learn the half-life and the prior from new groups before a choice, and add them to the evidence.

        Returns their prompts, int64, ascending.
        """
        if not self.unlearned:
            return np.empty(0, np.int64)
        first, age, size, mean, variance, lowest, highest = self.unlearned.take()
        prompts = first.astype(np.int64)
        self.low = float(lowest.min(initial=self.low))
        self.high = float(highest.max(initial=self.high))
        seen = self.count[prompts] > 0
        if seen.any():
            self._learn_half_life(prompts[seen], age[seen], size[seen], mean[seen])
        self._fit_to_groups(prompts, size, mean, variance)
        old = self.count[prompts] * 0.5 ** (age / self.half_life)  # rollouts that still count
        several = size > 1
        self._learn_prior(*(column[several] for column in (old, size, mean, variance)))

        _, known, within = self._evidence_of(prompts)
        gap, total = mean - known, old + size
        self.variance[prompts] = (old * within + size * variance + old * size / total * (gap * gap)) / total
        self.mean[prompts] = known + size / total * gap
        self.count[prompts] = total
        return prompts

    def _learn_half_life(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray
    ) -> None:
        """Add to `losses` minus the log likelihood of group means (P,) under each half-life."""
        mu, t, k = (np.reshape(row, (-1, 1)) for row in self.prior_of(prompts))
        n_P1, m_P1, s_P1, size_P1, mean_P1 = (
            column[:, None] for column in (*self._evidence_of(prompts), size, mean)
        )
        kept_PH = np.exp2(-age[:, None] / HALF_LIVES)
        total_PH, centre_PH, variance_PH = mixture(mu, t, k, n_P1 * kept_PH, m_P1, s_P1)
        floor = 1e-4 * (self.high - self.low) ** 2
        spread_PH = variance_PH * (total_PH / size_P1 + 1) / (total_PH + 1) + floor
        self.losses += ((mean_P1 - centre_PH) ** 2 / spread_PH + np.log(spread_PH)).sum(axis=0) / 2

    def _fit_to_groups(
        self, prompts: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        """Hook of a subclass: new groups (P,) by ascending prompt, not yet part of the evidence."""

    def _learn_prior(self, old: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
        concentration = self.prior[2]
        columns = (column.tolist() for column in (old, size, mean, variance))
        for kept, rollouts, rate, within in zip(*columns, strict=True):
            weight = concentration / (concentration + kept)
            self.prior_visits += weight
            step = weight / min(self.prior_visits, _WINDOW)
            self.prior_mean += step * (rate - self.prior_mean)
            self.prior_square += step * (within + rate * rate - self.prior_square)
            self.prior_within += step * (within * rollouts / (rollouts - 1) - self.prior_within)

    def metrics(self) -> dict[str, float]:
        mean, variance, concentration = self.prior
        return {
            "posterior/half_life": self.half_life,
            "posterior/prior_mean": mean,
            "posterior/prior_informativeness": variance * concentration / (concentration + 1),
            "posterior/prior_concentration": concentration,
        }

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        evidence = np.stack([self.count, self.mean, self.variance])
        is_evidence = np.isfinite(evidence).all() and (evidence[[0, 2]] >= 0).all()
        check_state(is_evidence, "table/evidence")
        _, age, count, _, variance, _, _ = self.unlearned.groups
        are_groups = age.min(initial=0) >= 0 and count.min(initial=1) >= 1 and variance.min(initial=0) >= 0
        check_state(are_groups, "posterior/unlearned")
        numbers = [getattr(self, name) for name in MOMENTS]
        is_finite = self.losses.shape == HALF_LIVES.shape and np.isfinite([*numbers, *self.losses]).all()
        # rewards and the range's ends go to 1e15, and a range there is 1/8 wide or wider: rates go to 1.6e16
        has_range = -1e17 <= self.low < self.high <= 1e17 and self.prior_visits > 0
        is_moment = max(abs(self.prior_mean), abs(self.prior_square) ** 0.5) <= 1e17
        check_state(is_finite and has_range and is_moment and 0 <= self.prior_within <= 1e34, "posterior")


def mixture(mu: Any, t: Any, k: Any, n: Any, m: Any, s: Any) -> tuple[Any, Any, Any]:
    """K, M and T of `FadedPosterior`: a prior mu, t, k and n rollouts of mean m and variance s."""
    total = k + n
    gap = m - mu
    return total, (k * mu + n * m) / total, (k * t + n * s + k * n / total * (gap * gap)) / total

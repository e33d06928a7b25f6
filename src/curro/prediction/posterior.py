"""What a prompt's own past outcomes say of its next ones: a posterior that fades as the policy moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.prompts import PromptTable
from curro.selection.base import Outcome

HALF_LIVES = 2.0 ** np.arange(1, 13)
"""Candidate half-lives of the evidence, in training steps."""

_WINDOW = 512
_NARROW, _WIDE = 0.05, 50.0


class FadedPosterior:
    """A Beta posterior over a prompt's success rate, with a learnt prior and a learnt forgetting.

    The evidence of a prompt is the count n, mean m and variance s of its rewards, where the count
    halves every H steps. It is combined with a prior of mean mu and concentration k, shared by all
    prompts, as in a Dirichlet process with n observations:

        K = k + n        mean M = (k mu + n m) / K
        T = (k t + n s + k n / K (m - mu)^2) / K            the variance of one reward
        E[informativeness] = T K / (K + 1)                  ab / ((a+b)(a+b+1)) for 0/1 rewards

    For 0/1 rewards this is the Beta posterior Beta(K M, K (1 - M)) exactly; for other rewards, scaled
    to [0, 1] by the range of rewards seen so far, it has the right mean and expected variance.

    Nothing is tuned per data set. The prior's moments are those of the last 512 or so first visits.
    H is the one of `HALF_LIVES` under which the group means of all repeated visits were most likely
    (normal density with the posterior's predictive mean and variance): where old outcomes still
    predict new ones evidence is kept, where the policy has moved on it fades and a prompt that was
    never solved looks like any unknown prompt again.
    """

    def bind(self, table: PromptTable) -> None:
        self.table = table
        self.count = table.add("evidence_count", np.float32, 0)
        self.mean = table.add("evidence_mean", np.float32, 0)
        self.variance = table.add("evidence_variance", np.float32, 0)
        low, high = table.reward_range
        span = high - low
        self.low, self.high = low, high
        self.first_visits = 1.0
        # one pseudo-visit of a prompt whose success rate is uniform on [0, 1]
        self.first_mean, self.first_square = (low + high) / 2, (low + high) ** 2 / 4 + span**2 / 4
        self.first_within = span**2 / 6
        self.losses = np.zeros(len(HALF_LIVES))

    @property
    def half_life(self) -> float:
        """Training steps after which evidence counts half."""
        return float(HALF_LIVES[np.argmin(self.losses)]) if self.losses.any() else 64.0

    @property
    def prior(self) -> tuple[float, float, float]:
        """Mean, variance of one reward, and concentration, in units of the reward."""
        total = max(self.first_square - self.first_mean**2, 1e-9 * (self.high - self.low) ** 2)
        between = max(total - self.first_within, total / (1 + _WIDE))
        return (
            float(self.first_mean),
            float(total),
            float(np.clip(self.first_within / between, _NARROW, _WIDE)),
        )

    def combine(
        self, prompts: np.ndarray, age: np.ndarray, half_life: float | None = None
    ) -> tuple[np.ndarray, ...]:
        """Concentration K, mean M and variance of one reward T after `age` steps; arrays like `prompts`."""
        mu, t, k = self.prior
        n = self.count[prompts] * 0.5 ** (age / (half_life or self.half_life))
        m, s = self.mean[prompts].astype(np.float64), self.variance[prompts]
        total = k + n
        mean = (k * mu + n * m) / total
        return total, mean, (k * t + n * s + k * n / total * (m - mu) ** 2) / total

    def draw(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
        """A random draw of each prompt's informativeness from its posterior (Thompson sampling).

        The success rate p is drawn; p(1-p) is scaled by what part of it the rewards of such prompts
        really vary (all of it for 0/1 rewards). In squared units of the reward range.
        """
        concentration, mean, variance = self.combine(prompts, step - self.table["last_step"][prompts])
        span = self.high - self.low
        rate = np.clip((mean - self.low) / span, 1e-6, 1 - 1e-6)
        p = rng.beta(concentration * rate, concentration * (1 - rate))
        return p * (1 - p) * (variance / span**2) / (rate * (1 - rate))

    def expected(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """The expected informativeness of each prompt at this step, in squared units of the reward."""
        concentration, _, variance = self.combine(prompts, step - self.table["last_step"][prompts])
        return variance * concentration / (concentration + 1)

    def observe(self, outcome: Outcome) -> None:
        """Learn the forgetting and the prior, then add the groups to their prompts' evidence.

        Call it before the table's `last_step` is set to this visit's.
        """
        self.low = min(self.low, _lowest(outcome))
        self.high = max(self.high, _highest(outcome))
        prompts, size = outcome.prompts, outcome.scored.sum(axis=1)
        age = np.maximum(outcome.steps - self.table["last_step"][prompts], 0)
        seen = self.count[prompts] > 0
        self._learn_half_life(prompts[seen], age[seen], size[seen], outcome.mean[seen])
        self._learn_prior(outcome.mean[~seen], outcome.variance[~seen], size[~seen])

        old = self.count[prompts] * 0.5 ** (age / self.half_life)
        new = old + size
        gap = outcome.mean - self.mean[prompts]
        self.variance[prompts] = (
            old * self.variance[prompts] + size * outcome.variance + old * size / new * gap**2
        ) / new
        self.mean[prompts] += size / new * gap
        self.count[prompts] = new

    def _learn_half_life(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray
    ) -> None:
        floor = 1e-4 * (self.high - self.low) ** 2
        for i, half_life in enumerate(HALF_LIVES):
            concentration, expected, variance = self.combine(prompts, age, half_life)
            spread = variance * (concentration / size + 1) / (concentration + 1) + floor
            self.losses[i] += float(np.sum(np.log(spread) + (mean - expected) ** 2 / spread)) / 2

    def _learn_prior(self, mean: np.ndarray, variance: np.ndarray, size: np.ndarray) -> None:
        within = variance * size / np.maximum(size - 1, 1)
        for m, square, w in zip(mean, variance + mean**2, within, strict=True):
            self.first_visits += 1
            rate = 1 / min(self.first_visits, _WINDOW)
            self.first_mean += rate * (m - self.first_mean)
            self.first_square += rate * (square - self.first_square)
            self.first_within += rate * (w - self.first_within)

    def metrics(self) -> dict[str, float]:
        mean, variance, concentration = self.prior
        return {
            "posterior/half_life": self.half_life,
            "posterior/prior_mean": mean,
            "posterior/prior_informativeness": variance * concentration / (concentration + 1),
            "posterior/prior_concentration": concentration,
        }

    def state_dict(self) -> dict[str, Any]:
        names = ("low", "high", "first_visits", "first_mean", "first_square", "first_within")
        return {name: float(getattr(self, name)) for name in names} | {"losses": self.losses}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)


def _lowest(outcome: Outcome) -> float:
    return float(outcome.rewards.min(where=outcome.scored, initial=np.inf))


def _highest(outcome: Outcome) -> float:
    return float(outcome.rewards.max(where=outcome.scored, initial=-np.inf))

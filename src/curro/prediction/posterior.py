"""What a prompt's own past outcomes say of its next ones: a posterior that fades as the policy moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.errors import ConfigError
from curro.groups import Groups
from curro.prediction.posterior_kernels import add_evidence, ages, extremes, mix, move_prior, surprise
from curro.prediction.posterior_state import check_posterior
from curro.prompts import PromptTable
from curro.saved_state import require

HALF_LIVES = 2.0 ** np.arange(1, 13)
"""Candidate half-lives of the evidence, in training steps."""

_UNLEARNED = ("prompt", "age", "size", "mean", "variance", "lowest", "highest")
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
    All numbers are success rates: a reward of complete failure is 0, of complete success 1.

    Nothing is tuned per data set. The prior's moments are those of the last 512 or so visits, each
    weighed by k / (k + n), the part that the prior had in the prediction: a first visit counts fully,
    one of a prompt that is well known hardly. So the prior follows the policy when no prompt is new,
    and prompts that were put aside long ago are not judged by what the untrained policy could do.
    A group of one rollout says nothing of how rewards spread and is left out of it.
    H is the one of `HALF_LIVES` under which the group means of all repeated visits were most likely
    (normal density with the posterior's predictive mean and variance): where old outcomes still
    predict new ones evidence is kept, where the policy has moved on it fades and a prompt that was
    never solved looks like any unknown prompt again.

    What is shared by all prompts would depend on the order in which groups come in. So `observe` only
    keeps them, and `learn` takes in what has come since it was last called, in order of prompt.

    Args:
        half_life: H in training steps, above 0; None: learnt.

    Raises:
        ConfigError: a half-life that is not above 0.
    """

    def __init__(self, half_life: float | None = None) -> None:
        if half_life is not None and not half_life > 0:
            raise ConfigError(f"half_life is a number of training steps above 0, not {half_life}")
        self.fixed = half_life

    def bind(self, table: PromptTable) -> None:
        self.table = table
        names = ("evidence_count", "evidence_mean", "evidence_variance")
        table.add_together(*((name, np.float32, 0) for name in names))
        self.count, self.mean, self.variance = (table[name] for name in names)
        self.low, self.high = 0.0, 1.0
        self.prior_visits = 1.0
        # one pseudo-visit of a prompt whose success rate is uniform on [0, 1]
        self.prior_mean, self.prior_square, self.prior_within = 1 / 2, 1 / 2, 1 / 6
        self.unlearned = np.empty((len(_UNLEARNED), 0))
        self.losses = np.zeros(len(HALF_LIVES))

    @property
    def half_life(self) -> float:
        """Training steps after which evidence counts half."""
        if self.fixed is not None:
            return self.fixed
        return float(HALF_LIVES[np.argmin(self.losses)]) if self.losses.any() else 64.0

    @property
    def prior(self) -> tuple[float, float, float]:
        """Mean, variance of one reward, and concentration."""
        total = max(self.prior_square - self.prior_mean**2, 1e-9 * (self.high - self.low) ** 2)
        between = max(total - self.prior_within, total / (1 + _WIDE))
        return (
            float(self.prior_mean),
            float(total),
            min(max(float(self.prior_within / between), _NARROW), _WIDE),
        )

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        """The prior of each prompt: here of all of them the same."""
        return self.prior

    def combine(self, prompts: np.ndarray, step: int) -> np.ndarray:
        """What is believed of prompts (P,) at this step, the rows (4, P).

        They are the concentration K, the mean M, the variance of one reward T, and the share of the prompt's
        evidence that still counts, 0 where there is none.
        """
        age = np.empty(len(prompts))
        ages(self.table["last_step"], prompts, step, age)
        return self._mix(prior_rows(*self.prior_of(prompts)), prompts, age)

    def _mix(self, prior: np.ndarray, prompts: np.ndarray, age: np.ndarray) -> np.ndarray:
        mixed = np.empty((4, len(prompts)))
        mix(prior, self.count, self.mean, self.variance, prompts, age, self.half_life, mixed)
        return mixed

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Successes and failures of the Beta distribution of each prompt's success rate, in rewards seen."""
        concentration, mean = self.combine(prompts, step)[:2]
        rate = np.clip((mean - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)
        return concentration * rate, concentration * (1 - rate)

    def draw(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A random draw of each prompt's informativeness (P,) from its posterior (Thompson sampling).

        The success rate p is drawn; p(1-p) is scaled by what part of it the rewards of such prompts
        really vary (all of it for 0/1 rewards). In squared units of the range of rewards seen.

        Returns also the share (P,) of the prompt's evidence that still counts, 0 where there is none.
        """
        p, rate, variance, kept = self._draw(prompts, step, rng)
        return p * (1 - p) * (variance / (self.high - self.low) ** 2) / (rate * (1 - rate)), kept

    def draw_rate(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
        """A random draw of each prompt's success rate from its posterior."""
        return self.low + (self.high - self.low) * self._draw(prompts, step, rng)[0]

    def _draw(self, prompts: np.ndarray, step: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """A draw and the mean of where in the range seen the success rate is; the variance of one reward,
        and the share of the evidence that still counts."""
        concentration, mean, variance, kept = self.combine(prompts, step)
        rate = np.clip((mean - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)
        return rng.beta(concentration * rate, concentration * (1 - rate)), rate, variance, kept

    def expected(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """The expected informativeness (P,) of each prompt at this step, in squared units of the reward.

        Returns also the share (P,) of the prompt's evidence that still counts, 0 where there is none.
        """
        concentration, _, variance, kept = self.combine(prompts, step)
        return variance * concentration / (concentration + 1) * self._scale, kept

    @property
    def _scale(self) -> float:
        low, high = self.table.reward_range
        return (high - low) ** 2

    def observe(self, outcome: Groups) -> None:
        """Keep finished groups for `learn`; before the table's `last_step` is set to their visit."""
        rate = self.table.success_rate
        lowest, highest = np.empty((2, len(outcome.prompts)))
        extremes(outcome.rewards, outcome.scored, lowest, highest)
        unlearned = (
            outcome.prompts,
            np.maximum(outcome.steps - self.table["last_step"][outcome.prompts], 0),
            outcome.count,
            rate(outcome.mean),
            outcome.variance / self._scale,
            rate(lowest),
            rate(highest),
        )
        self.unlearned = np.concatenate([self.unlearned, np.array(unlearned, np.float64)], axis=1)

    def learn(self) -> np.ndarray:
        """Learn the forgetting and the prior from what was observed, and add it to the evidence.

        Returns the prompts it was about, int64, ascending. Call it before every choice.
        """
        if not self.unlearned.size:
            return np.empty(0, np.int64)
        order = self.unlearned[0].argsort()
        first, age, size, mean, variance, lowest, highest = self.unlearned.take(order, axis=1)
        self.unlearned = self.unlearned[:, :0]
        prompts = first.astype(np.int64)
        self.low = float(lowest.min(initial=self.low))
        self.high = float(highest.max(initial=self.high))
        seen = self.count[prompts] > 0
        if seen.any():
            self._learn_half_life(prompts[seen], age[seen], size[seen], mean[seen])
        self._learn_more(prompts, age, size, mean, variance)
        old = self.count[prompts] * 0.5 ** (age / self.half_life)
        several = size > 1
        self._learn_prior(*(column[several] for column in (old, size, mean, variance)))

        add_evidence(self.count, self.mean, self.variance, prompts, old, size, mean, variance)
        return prompts

    def _learn_half_life(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray
    ) -> None:
        prior = prior_rows(*self.prior_of(prompts))
        strengths = np.full(HALF_LIVES.shape, prior[2, 0])
        self.losses += self._surprise(prior, strengths, HALF_LIVES, prompts, age, size, mean)

    def _surprise(
        self,
        prior: np.ndarray,
        strengths_R: np.ndarray,
        half_lives_R: np.ndarray,
        prompts: np.ndarray,
        age: np.ndarray,
        size: np.ndarray,
        mean: np.ndarray,
    ) -> np.ndarray:
        """Minus the log likelihood (R,) of group means (P,) under each pair of a strength and a half-life."""
        floor = 1e-4 * (self.high - self.low) ** 2
        losses_R = np.zeros(len(strengths_R))
        evidence = self.count, self.mean, self.variance
        surprise(prior, strengths_R, half_lives_R, *evidence, prompts, age, size, mean, floor, losses_R)
        return losses_R / 2

    def _learn_more(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        """What a subclass learns from new groups (P,), ascending; they are not in the evidence yet."""

    def _learn_prior(self, old: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> None:
        moments = self.prior_visits, self.prior_mean, self.prior_square, self.prior_within
        moved = move_prior(moments, self.prior[2], float(_WINDOW), old, size, mean, variance)
        self.prior_visits, self.prior_mean, self.prior_square, self.prior_within = moved

    def metrics(self) -> dict[str, float]:
        mean, variance, concentration = self.prior
        return {
            "posterior/half_life": self.half_life,
            "posterior/prior_mean": mean,
            "posterior/prior_informativeness": variance * concentration / (concentration + 1),
            "posterior/prior_concentration": concentration,
        }

    def state_dict(self) -> dict[str, Any]:
        names = ("low", "high", "prior_visits", "prior_mean", "prior_square", "prior_within")
        arrays = {"losses": self.losses.copy(), "unlearned": self.unlearned.copy()}
        return {name: float(getattr(self, name)) for name in names} | arrays

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_posterior(state, FadedPosterior.state_dict(self), self.table.size)
        fine = (self.count >= 0).all() and (self.variance >= 0).all() and np.isfinite(self.mean).all()
        require(fine and np.isfinite(self.count).all(), "table/evidence", "is none")
        for name, value in state.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)


def prior_rows(mu: Any, t: Any, k: float) -> np.ndarray:
    """The prior as kernels take it: rows mu, t and k, a column for all prompts or one for each."""
    rows = np.empty((3, np.size(mu)))
    rows[0], rows[1], rows[2] = mu, t, k
    return rows

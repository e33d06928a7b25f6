"""Frontier: predict a prompt's success rate from its features and from its own past outcomes.

The two predictors here share one idea. A prompt's success rate has a Beta distribution, which starts from a
prior and is updated by the prompt's own outcomes, the evidence, which fades as the policy moves
(`FadedPosterior`). `BetaPosterior` has one prior for all prompts. `Frontier` has a prior for each prompt
(`FeaturePosterior`): a logistic regression predicts it from the prompt's features, so that outcomes of one
prompt carry over to others. docs/frontier.md works one prompt out by hand, from its prior to the draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.core.checkpoint import check_prompt_numbers, check_state
from curro.core.groups import Groups
from curro.core.policy import Policy
from curro.core.prediction import Predictor
from curro.core.prompts import PromptTable
from curro.methods.prediction.features import Features, KnownFeatures, features_of
from curro.methods.prediction.logistic_regression import LogisticRegression
from curro.methods.prediction.posterior import FadedPosterior, prior_rows
from curro.methods.prediction.quality import Calibration

PRIOR_ROLLOUTS = 4.0
"""How many rollouts the prior of a prompt's features counts as."""
WINDOW, REFIT = 512, 4
"""The regression is fitted to the latest WINDOW groups, again after every REFIT new ones."""
_PARTS = ("regression", "calibration", "surprises")


class BetaPosterior(Predictor):
    """A Beta posterior of each prompt's success rate, from outcomes that fade and a prior that is learnt.

    Source: "Model Predictive Prompt Selection" (arXiv 2507.04632); the fading and the prior are curro's.

    Success rate and informativeness come from `FadedPosterior`: Beta(a, b) for 0/1 rewards, with

        a = k mu + 2^(-age / H) n m          successes, those of the prior first
        b = k (1 - mu) + 2^(-age / H) n (1 - m)
        E[p] = a / (a + b),    E[p(1-p)] = a b / ((a + b)(a + b + 1))

    where n rollouts, `age` steps ago, had the mean m. The prior's mean mu and weight k are learnt from the
    latest visits of all prompts. Rewards that are not 0/1 count as fractions of a success, on the scale of
    the reward range, which rewards beyond it widen; their expected variance is kept beside their mean and is
    exact.

    "Model Predictive Prompt Selection" (arXiv 2507.04632) draws from such posteriors, with a prior of (1, 1)
    and a fixed share of the evidence kept at each visit.

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: H in training steps; None: learnt from repeated visits. Evidence that fades by a factor d
            in each step has H = log(1/2) / log(d).
        known: a column of the data set with pass rates known before training. The prior of each prompt is
            then what a regression makes of that column.
    """

    needs_second_visits = True

    def __init__(
        self, *, thompson: bool = True, half_life: float | None = None, known: str | None = None
    ) -> None:
        self.thompson = thompson
        if known is not None:
            self.needs_second_visits = False
        self.posterior: FadedPosterior = (
            FadedPosterior(half_life)
            if known is None
            else FeaturePosterior(half_life, KnownFeatures(known, None))
        )

    def bind(self, table: PromptTable, rng: np.random.Generator) -> None:
        super().bind(table, rng)
        self.posterior.bind(table)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        return self._informativeness(prompts, step)[0]

    def _informativeness(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Predicted variances (P,) in squared reward ranges, and the share (P,) of the evidence that still
        counts."""
        self.posterior.learn()
        if self.thompson:
            return self.posterior.draw(prompts, step, self.rng)
        return self.posterior.expected(prompts, step)

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        self.posterior.learn()
        if self.thompson:
            return self.posterior.draw_rate(prompts, step, self.rng)
        return self.posterior.combine(prompts, step)[1]

    def observe(self, outcome: Groups) -> None:
        self.posterior.observe(outcome)

    def metrics(self) -> dict[str, float]:
        return self.posterior.metrics()

    def state_dict(self) -> dict[str, Any]:
        return self.posterior.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.posterior.load_state_dict(state)


class Frontier(BetaPosterior):
    """The Beta posterior with a prior for each prompt, learnt from its text, so that outcomes carry over.

    Source: curro's own.

    This is `BetaPosterior` with the prior of `FeaturePosterior`.

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: of the evidence, in training steps; None: learnt.
        rest: multiply the informativeness by the share of a prompt's own evidence that has faded, so that a
            prompt that was just rolled out is not chosen again at once.
        known: a column of the data set with pass rates known before training (`KnownFeatures`).
        features: "text"; "hidden", the policy's hidden state of the prompt; "entropy", how sure the policy is
            of its first two tokens (`EntropyFeatures`); or several joined by "+". A host has to lend the
            policy for the latter two.
    """

    needs_second_visits = False

    def __init__(
        self,
        *,
        thompson: bool = False,
        half_life: float | None = None,
        rest: bool = False,
        features: str = "text",
        known: str | None = None,
    ) -> None:
        super().__init__(thompson=thompson)
        seen = features_of(features)
        if known is not None:
            seen = KnownFeatures(known, seen)
        self.needs_policy = self.reads_weights = seen.needs_policy
        self.posterior = FeaturePosterior(half_life, seen)
        self.rest = rest

    def attach(self, policy: Policy) -> None:
        super().attach(policy)
        if isinstance(self.posterior, FeaturePosterior):
            self.posterior.features.attach(policy)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        value, kept = self._informativeness(prompts, step)
        return value * (1 - kept) if self.rest else value


class FeaturePosterior(FadedPosterior):
    """A `FadedPosterior` whose prior differs from prompt to prompt:

        mu = the success rate that a logistic regression on the prompt's features predicts
        k  = 4 rollouts
        t  = f mu (1 - mu),    f = t_0 / (mu_0 (1 - mu_0)) of the prior of all prompts; f = 1 for 0/1 rewards

    The regression is fitted to the means of the latest 512 groups. A group of G rollouts, the r-th latest,
    counts as (1 - r / 512) G / (1 + (G - 1) / (k + 1)) trials, because rollouts of one prompt are correlated.

    The prior is that of `FadedPosterior` where the table holds no features, and until the first fit, after 4
    groups. Features that predict something before any fit (`Features.knows`) make the prior from the first
    choice on. Features that do not last are computed again at every fit, for all 512 groups, since those of
    an earlier policy no longer hold.

    The expected informativeness is corrected by what the groups before turned out to be (`Calibration`).

    Args:
        half_life: H in training steps; None: it is learnt.
        features: what the regression reads of a prompt.
    """

    def __init__(self, half_life: float | None, features: Features) -> None:
        super().__init__(half_life)
        self.features = features

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.has_features = self.features.bind(table)
        self.regression: LogisticRegression | None = None
        self.recent = np.empty((3, 0))
        self.lasting: LatestRows | None = None
        self.new = 0
        self.calibration = Calibration()

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        if not len(prompts) or (self.regression is None and not self.features.knows):
            return self.prior
        features = self.features.of(prompts)
        if self.regression is None:
            self.regression = self._new_regression(features.shape[1])
        return self._prior_from_features(features)

    def _new_regression(self, width: int) -> LogisticRegression:
        return LogisticRegression(self.features.blocks(width), self.features.means(width))

    def _prior_from_features(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """The prior of the prompts with these features: means (P,), variances of one reward (P,), k."""
        assert self.regression is not None
        mu, t, _ = self.prior
        span = self.high - self.low
        rate = np.clip((mu - self.low) / span, 1e-6, 1 - 1e-6)
        predicted_P = np.clip(self.regression.predict(features), 1e-4, 1 - 1e-4)
        return (
            self.low + span * predicted_P,
            t * predicted_P * (1 - predicted_P) / (rate * (1 - rate)),
            PRIOR_ROLLOUTS,
        )

    def expected(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        expected, kept = super().expected(prompts, step)
        return self.calibration(expected), kept

    def _learn_more(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        if not self.has_features or not len(prompts):
            return
        features = self.features.of(prompts)
        if self.regression is not None:
            prior = prior_rows(*self._prior_from_features(features))
            self._calibrate(self._mix(prior, prompts, age), size, variance)
        self.recent = np.concatenate([self.recent, [prompts, size, mean]], axis=1)[:, -WINDOW:]
        if self.features.lasting:
            self._keep(features)
        self.new += len(prompts)
        if self.new >= REFIT:
            self._fit()

    def _keep(self, features: np.ndarray) -> None:
        if self.lasting is None:
            self.lasting = LatestRows(WINDOW, features.shape[1])
        self.lasting.add(features)

    def _calibrate(self, believed: np.ndarray, size: np.ndarray, variance: np.ndarray) -> None:
        concentration, _, variance_of_one, _ = believed
        several = size > 1
        predicted_P = variance_of_one * concentration / (concentration + 1)
        self.calibration.learn(predicted_P[several], (variance * size / np.maximum(size - 1, 1))[several])

    def _fit(self) -> None:
        prompts_K, size_K, mean_K = self.recent
        rate_K = np.clip((mean_K - self.low) / (self.high - self.low), 0, 1)
        lasting = self.lasting
        features = self.features.of(prompts_K.astype(np.int64)) if lasting is None else lasting.rows
        if self.regression is None:
            self.regression = self._new_regression(features.shape[1])
        self.regression.fit(features, rate_K, self._trials(size_K))
        self.new = 0

    def _trials(self, size_K: np.ndarray) -> np.ndarray:
        """How many independent trials the latest groups of so many rollouts count as, the last one latest."""
        latest_K = 1 - np.arange(len(size_K))[::-1] / WINDOW
        return latest_K * size_K / (1 + (size_K - 1) / (PRIOR_ROLLOUTS + 1))

    def state_dict(self) -> dict[str, Any]:
        fitted = {} if self.regression is None else {"regression": self.regression.state_dict()}
        fitted["calibration"] = self.calibration.state_dict()
        return super().state_dict() | {"recent": self.recent.copy(), "new": self.new} | fitted

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name not in _PARTS})
        self.calibration.load_state_dict(state["calibration"])
        recent = state["recent"]
        are_groups = len(recent) == 3 and recent.shape[1] <= WINDOW and np.isfinite(recent).all()
        check_state(are_groups and recent[1].min(initial=1) >= 1, "posterior/recent", "is not of groups")
        check_prompt_numbers(recent[0], self.table.size, "posterior/recent")
        self.regression = None
        if "surprises" in state:  # of version 0.2.0, which had other features: fitted at the next group
            self.new = REFIT
        elif "regression" in state:
            self.regression = self._new_regression(len(state["regression"]["weight"]))
            self.regression.load_state_dict(state["regression"])
        self.lasting = None
        if self.features.lasting and self.recent.shape[1]:
            self._keep(self.features.of(self.recent[0].astype(np.int64)))


class LatestRows:
    """The latest K rows of a matrix that grows, one after the other in memory.

    Args:
        most: K, how many rows are kept.
        width: D, the length of a row.
    """

    def __init__(self, most: int, width: int) -> None:
        self.most, self.end = most, 0
        # twice the room, so that the kept rows move only once in K additions
        self._room = np.empty((2 * most, width))

    @property
    def rows(self) -> np.ndarray:
        """Up to K rows, the latest last: float64 (at most K, D), until more are added."""
        return self._room[max(0, self.end - self.most) : self.end]

    def add(self, more_PD: np.ndarray) -> None:
        """Add rows (P, D); of more than K only the last K are kept."""
        more_PD = more_PD[-self.most :]
        if self.end + len(more_PD) > len(self._room):
            kept = self.rows[len(more_PD) :]
            self._room[: len(kept)] = kept
            self.end = len(kept)
        self._room[self.end : self.end + len(more_PD)] = more_PD
        self.end += len(more_PD)

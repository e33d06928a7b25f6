"""A posterior whose prior is what a prompt's features say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.prediction.calibration import Calibration
from curro.prediction.features import Features
from curro.prediction.latest_rows import LatestRows
from curro.prediction.logistic_regression import LogisticRegression
from curro.prediction.posterior import FadedPosterior, prior_rows
from curro.prompts import PromptTable
from curro.saved_state import require, require_prompts

STRENGTHS = 2.0 ** np.arange(-1, 8)
"""Candidate strengths of the prior, in rollouts."""

_PARTS = ("regression", "calibration")

WINDOW, REFIT = 512, 4
"""Groups that the regression is fitted to, the latest; new ones before it is fitted again."""


class FeaturePosterior(FadedPosterior):
    """`FadedPosterior` with a prior for each prompt:

        mu = the success rate that a regression on the features predicts, k = S
        t  = f mu (1 - mu),    f the part that is left of it in the rewards of all prompts; 1 for 0/1 rewards

    The regression is fitted to the means of the latest 512 groups. A group of G rollouts, the r-th latest,
    counts as (1 - r / 512) G / (1 + (G - 1) / (S + 1)) trials: rollouts of one prompt tell of one prompt.
    S is the one of `STRENGTHS` under which the recent group means were most likely, each predicted before it
    was learnt from, with the evidence there was: high where features say much, low where they say nothing.

    Features that do not last are asked for again at every fit, of all 512 groups: what they were is another
    policy's.

    Without features, and before 4 groups are in, the prior is that of `FadedPosterior`.

    Features that know something before the first rollout make the prior from the first choice on.

    The expected informativeness is calibrated by what came of the groups before (`Calibration`).

    Args:
        half_life: H in training steps; None: learnt.
        features: of prompts.
    """

    def __init__(self, half_life: float | None, features: Features) -> None:
        super().__init__(half_life)
        self.features = features

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.tells = self.features.bind(table)
        self.regression: LogisticRegression | None = None
        self.recent = np.empty((3, 0))
        self.lasting: LatestRows | None = None
        self.new = 0
        self.surprises = np.zeros(len(STRENGTHS))
        self.calibration = Calibration()

    @property
    def strength(self) -> float:
        """S, rollouts that the prior counts as."""
        return float(STRENGTHS[np.argmin(self.surprises)])

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        if not len(prompts) or (self.regression is None and not self.features.knows):
            return self.prior
        features = self.features.of(prompts)
        if self.regression is None:
            self.regression = self._new_regression(features.shape[1])
        return self._told(features)

    def _new_regression(self, width: int) -> LogisticRegression:
        return LogisticRegression(self.features.blocks(width), self.features.means(width))

    def _told(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        assert self.regression is not None
        mu, t, _ = self.prior
        span = self.high - self.low
        rate = np.clip((mu - self.low) / span, 1e-6, 1 - 1e-6)
        told_P = np.clip(self.regression.predict(features), 1e-4, 1 - 1e-4)
        return self.low + span * told_P, t * told_P * (1 - told_P) / (rate * (1 - rate)), self.strength

    def expected(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        expected, kept = super().expected(prompts, step)
        return self.calibration(expected / self._scale) * self._scale, kept

    def _learn_more(
        self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        if not self.tells or not len(prompts):
            return
        features = self.features.of(prompts)
        if self.regression is not None:
            prior = prior_rows(*self._told(features))
            self._calibrate(self._mix(prior, prompts, age), size, variance)
            self.surprises *= (1 - 1 / WINDOW) ** len(prompts)
            half_lives = np.full(len(STRENGTHS), self.half_life)
            self.surprises += self._surprise(prior, STRENGTHS, half_lives, prompts, age, size, mean)
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
        concentration, _, one, _ = believed
        several = size > 1
        predicted_P = one * concentration / (concentration + 1)
        self.calibration.learn(predicted_P[several], (variance * size / np.maximum(size - 1, 1))[several])

    def _fit(self) -> None:
        prompts_K, size_K, mean_K = self.recent
        rate_K = np.clip((mean_K - self.low) / (self.high - self.low), 0, 1)
        latest_K = 1 - np.arange(len(rate_K))[::-1] / WINDOW
        trials_K = latest_K * size_K / (1 + (size_K - 1) / (self.strength + 1))
        lasting = self.lasting
        features = self.features.of(prompts_K.astype(np.int64)) if lasting is None else lasting.rows
        if self.regression is None:
            self.regression = self._new_regression(features.shape[1])
        self.regression.fit(features, rate_K, trials_K)
        self.new = 0

    def metrics(self) -> dict[str, float]:
        fitted = self.regression is not None
        return super().metrics() | ({"posterior/strength": self.strength} if fitted else {})

    def state_dict(self) -> dict[str, Any]:
        fitted = {} if self.regression is None else {"regression": self.regression.state_dict()}
        arrays = {"recent": self.recent.copy(), "surprises": self.surprises.copy()}
        fitted["calibration"] = self.calibration.state_dict()
        return super().state_dict() | arrays | {"new": self.new} | fitted

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name not in _PARTS})
        self.calibration.load_state_dict(state["calibration"])
        recent, surprises = state["recent"], state["surprises"]
        fine = len(recent) == 3 and recent.shape[1] <= WINDOW and np.isfinite(recent).all()
        require(fine and recent[1].min(initial=1) >= 1, "posterior/recent", "is not of groups")
        require_prompts(recent[0], self.table.size, "posterior/recent")
        fine = surprises.shape == STRENGTHS.shape and np.isfinite(surprises).all()
        require(fine, "posterior/surprises", "is not of the strengths")
        self.regression = None
        if "regression" in state:
            self.regression = self._new_regression(len(state["regression"]["weight"]))
            self.regression.load_state_dict(state["regression"])
        self.lasting = None
        if self.features.lasting and self.recent.shape[1]:
            self._keep(self.features.of(self.recent[0].astype(np.int64)))

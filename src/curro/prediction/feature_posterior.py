"""A posterior whose prior is what a prompt's features say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.prediction.features import Features
from curro.prediction.logistic_regression import LogisticRegression
from curro.prediction.posterior import FadedPosterior
from curro.prompts import PromptTable

STRENGTHS = 2.0 ** np.arange(-1, 8)
"""Candidate strengths of the prior, in rollouts."""

WINDOW, REFIT = 512, 32
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

    Without features, and before 32 groups are in, the prior is that of `FadedPosterior`.

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
        self.lasting_KD = np.empty((0, 0))
        self.new = 0
        self.surprises = np.zeros(len(STRENGTHS))

    @property
    def strength(self) -> float:
        """S, rollouts that the prior counts as."""
        return float(STRENGTHS[np.argmin(self.surprises)])

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        if self.regression is None or not len(prompts):
            return self.prior
        return self._told(self.features.of(prompts))

    def _told(self, features_PD: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        assert self.regression is not None
        mu, t, _ = self.prior
        span = self.high - self.low
        rate = np.clip((mu - self.low) / span, 1e-6, 1 - 1e-6)
        told_P = np.clip(self.regression.predict(features_PD), 1e-4, 1 - 1e-4)
        return self.low + span * told_P, t * told_P * (1 - told_P) / (rate * (1 - rate)), self.strength

    def _learn_more(self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray) -> None:
        if not self.tells or not len(prompts):
            return
        features_PD = self.features.of(prompts)
        if self.regression is not None:
            mu_P, t_P, _ = self._told(features_PD)
            believed = self._mix((mu_P, t_P, STRENGTHS[:, None]), prompts, age)
            kept = (1 - 1 / WINDOW) ** len(prompts)
            self.surprises = kept * self.surprises + self._surprise(believed, size, mean)
        self.recent = np.concatenate([self.recent, [prompts, size, mean]], axis=1)[:, -WINDOW:]
        if self.features.lasting:
            before_KD = self.lasting_KD.reshape(-1, features_PD.shape[1])
            self.lasting_KD = np.concatenate([before_KD, features_PD])[-WINDOW:]
        self.new += len(prompts)
        if self.new >= REFIT:
            self._fit()

    def _fit(self) -> None:
        prompts_K, size_K, mean_K = self.recent
        rate_K = np.clip((mean_K - self.low) / (self.high - self.low), 0, 1)
        latest_K = 1 - np.arange(len(rate_K))[::-1] / WINDOW
        trials_K = latest_K * size_K / (1 + (size_K - 1) / (self.strength + 1))
        features_KD = (
            self.lasting_KD if self.features.lasting else self.features.of(prompts_K.astype(np.int64))
        )
        if self.regression is None:
            self.regression = LogisticRegression(self.features.blocks(features_KD.shape[1]))
        self.regression.fit(features_KD, rate_K, trials_K)
        self.new = 0

    def metrics(self) -> dict[str, float]:
        fitted = self.regression is not None
        return super().metrics() | ({"posterior/strength": self.strength} if fitted else {})

    def state_dict(self) -> dict[str, Any]:
        fitted = {} if self.regression is None else {"regression": self.regression.state_dict()}
        arrays = {"recent": self.recent.copy(), "surprises": self.surprises.copy()}
        return super().state_dict() | arrays | {"new": self.new} | fitted

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name != "regression"})
        self.regression = None
        if "regression" in state:
            blocks = self.features.blocks(len(state["regression"]["weight"]))
            self.regression = LogisticRegression(blocks)
            self.regression.load_state_dict(state["regression"])
        if self.features.lasting and self.recent.shape[1]:
            self.lasting_KD = self.features.of(self.recent[0].astype(np.int64))

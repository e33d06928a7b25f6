"""A posterior whose prior is what the prompt's text says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.prediction.posterior import FadedPosterior
from curro.prediction.text_features import BLOCKS, text_features, text_of
from curro.prediction.text_regression import LogisticRegression
from curro.prompts import PromptTable

STRENGTHS = 2.0 ** np.arange(-1, 8)
"""Candidate strengths of the prior, in rollouts."""

WINDOW, REFIT = 512, 32
"""Groups that the regression is fitted to, the latest; new ones before it is fitted again."""


class TextPosterior(FadedPosterior):
    """`FadedPosterior` with a prior for each prompt:

        mu = the success rate that a regression on the text predicts, k = S
        t  = f mu (1 - mu),    f the part that is left of it in the rewards of all prompts; 1 for 0/1 rewards

    The regression is fitted to the means of the latest 512 groups. A group of G rollouts, the r-th latest,
    counts as (1 - r / 512) G / (1 + (G - 1) / (S + 1)) trials: rollouts of one prompt tell of one prompt.
    S is the one of `STRENGTHS` under which the recent group means were most likely, each predicted before it
    was learnt from, with the evidence there was: where texts say much S is high, where they say nothing low.

    Without texts, and before 32 groups are in, the prior is that of `FadedPosterior`.

    Args:
        half_life: H in training steps; None: learnt.
    """

    def bind(self, table: PromptTable) -> None:
        super().bind(table)
        self.rows = table.rows if table.rows is not None and "prompt" in table.rows[0] else None
        self.regression = LogisticRegression(BLOCKS)
        self.recent = np.empty((3, 0))
        self.features_KD = np.empty((0, sum(BLOCKS)))
        self.new, self.fitted = 0, False
        self.surprises = np.zeros(len(STRENGTHS))

    @property
    def strength(self) -> float:
        """S, rollouts that the text's prediction counts as."""
        return float(STRENGTHS[np.argmin(self.surprises)])

    def prior_of(self, prompts: np.ndarray) -> tuple[Any, Any, Any]:
        return self._told(self._features(prompts)) if self.fitted else self.prior

    def _features(self, prompts: np.ndarray) -> np.ndarray:
        assert self.rows is not None
        return text_features([text_of(self.rows[prompt]) for prompt in prompts.tolist()])

    def _told(self, features_PD: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        mu, t, _ = self.prior
        span = self.high - self.low
        rate = np.clip((mu - self.low) / span, 1e-6, 1 - 1e-6)
        told_P = np.clip(self.regression.predict(features_PD), 1e-4, 1 - 1e-4)
        return self.low + span * told_P, t * told_P * (1 - told_P) / (rate * (1 - rate)), self.strength

    def _learn_more(self, prompts: np.ndarray, age: np.ndarray, size: np.ndarray, mean: np.ndarray) -> None:
        if self.rows is None or not len(prompts):
            return
        features_PD = self._features(prompts)
        if self.fitted:
            mu_P, t_P, _ = self._told(features_PD)
            believed = self._mix((mu_P, t_P, STRENGTHS[:, None]), prompts, age)
            kept = (1 - 1 / WINDOW) ** len(prompts)
            self.surprises = kept * self.surprises + self._surprise(believed, size, mean)
        self.recent = np.concatenate([self.recent, [prompts, size, mean]], axis=1)[:, -WINDOW:]
        self.features_KD = np.concatenate([self.features_KD, features_PD])[-WINDOW:]
        self.new += len(prompts)
        if self.new >= REFIT:
            self._fit()

    def _fit(self) -> None:
        _, size_K, mean_K = self.recent
        rate_K = np.clip((mean_K - self.low) / (self.high - self.low), 0, 1)
        latest_K = 1 - np.arange(len(rate_K))[::-1] / WINDOW
        trials_K = latest_K * size_K / (1 + (size_K - 1) / (self.strength + 1))
        self.regression.fit(self.features_KD, rate_K, trials_K)
        self.new, self.fitted = 0, True

    def metrics(self) -> dict[str, float]:
        return super().metrics() | ({"posterior/strength": self.strength} if self.fitted else {})

    def state_dict(self) -> dict[str, Any]:
        names = {"new": self.new, "fitted": self.fitted}
        arrays = {"recent": self.recent.copy(), "surprises": self.surprises.copy()}
        return super().state_dict() | names | arrays | {"regression": self.regression.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state.items() if name != "regression"})
        self.regression.load_state_dict(state["regression"])
        if self.recent.shape[1]:
            self.features_KD = self._features(self.recent[0].astype(np.int64))

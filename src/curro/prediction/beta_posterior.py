"""A prompt's own outcomes as a predictor: a Beta posterior of its success rate, whose evidence fades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from curro.groups import Groups
from curro.prediction.base import Predictor
from curro.prediction.feature_posterior import FeaturePosterior
from curro.prediction.known import KnownFeatures
from curro.prediction.posterior import FadedPosterior
from curro.prompts import PromptTable


class BetaPosterior(Predictor):
    """A Beta posterior over each success rate, from outcomes that fade and a prior that is learnt.

    Source: "Model Predictive Prompt Selection" (arXiv 2507.04632); the fading and the prior are curro's.

    Success rate and informativeness come from `FadedPosterior`: Beta(a, b) for 0/1 rewards, with

        a = k mu + 2^(-age / H) n m          successes, those of the prior first
        b = k (1 - mu) + 2^(-age / H) n (1 - m)
        E[p] = a / (a + b),    E[p(1-p)] = a b / ((a + b)(a + b + 1))

    where n rollouts, `age` steps ago, had the mean m, and the prior's mean mu and weight k are learnt from
    the latest visits of all prompts. Other rewards count as fractions of a success, on the scale of the
    rewards seen; their expected variance is kept beside their mean and is exact.

    "Model Predictive Prompt Selection" (arXiv 2507.04632) draws from such posteriors, with a prior of (1, 1)
    and a fixed share of the evidence kept at each visit.

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: H in training steps; None: learnt from repeated visits. Evidence that is to fade by a
            factor d a step has H = log(1/2) / log(d).
        known: the column of the data set that has pass rates known before; the prior of each prompt is then
            what that column turns out to be worth.

    Raises:
        ConfigError: a half-life that is not above 0.
    """

    has_belief = True

    def __init__(
        self, *, thompson: bool = True, half_life: float | None = None, known: str | None = None
    ) -> None:
        self.thompson = thompson
        self.posterior = (
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
        """The predictions, and the share of each prompt's evidence that still counts."""
        posterior = self.posterior
        posterior.learn()
        if self.thompson:
            drawn, kept = posterior.draw(prompts, step, self.rng)
            return drawn * (posterior.high - posterior.low) ** 2, kept
        low, high = self.table.reward_range
        expected, kept = posterior.expected(prompts, step)
        return expected / (high - low) ** 2, kept

    def success_rate(self, prompts: np.ndarray, step: int) -> np.ndarray:
        self.posterior.learn()
        if self.thompson:
            return self.posterior.draw_rate(prompts, step, self.rng)
        return self.posterior.combine(prompts, step)[1]

    def belief(self, prompts: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        self.posterior.learn()
        return self.posterior.belief(prompts, step)

    def observe(self, outcome: Groups) -> None:
        self.posterior.observe(outcome)

    def metrics(self) -> dict[str, float]:
        return self.posterior.metrics()

    def state_dict(self) -> dict[str, Any]:
        return self.posterior.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.posterior.load_state_dict(state)

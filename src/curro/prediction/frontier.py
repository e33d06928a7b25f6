"""Frontier: what a prompt's features say of it, and its own fading outcomes, as prior and evidence."""

from __future__ import annotations

import numpy as np

from curro.policy import Policy
from curro.prediction.beta_posterior import BetaPosterior
from curro.prediction.feature_posterior import FeaturePosterior
from curro.prediction.features import features_of
from curro.prediction.known import KnownFeatures


class Frontier(BetaPosterior):
    """The Beta posterior with a prior for each prompt, learnt from its text, so that outcomes carry over.

    Source: curro's own.

    This is `BetaPosterior` with the prior of `FeaturePosterior`.

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: of the evidence, in training steps; None: learnt.
        rest: informativeness times the share of a prompt's own evidence that has faded, so that a prompt
            that was just rolled out waits until little is known of it.
        known: the column of the data set that has pass rates known before (`KnownFeatures`).
        features: "text", or "hidden", the policy's hidden state of the prompt, which a host has to lend.

    Raises:
        ConfigError: a half-life that is not above 0, features that are neither.
    """

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
        self.needs_policy = seen.needs_policy
        self.posterior: FeaturePosterior = FeaturePosterior(half_life, seen)
        self.rest = rest

    def attach(self, policy: Policy) -> None:
        super().attach(policy)
        self.posterior.features.attach(policy)

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        value, kept = self._informativeness(prompts, step)
        return value * (1 - kept) if self.rest else value

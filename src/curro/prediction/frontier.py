"""Frontier: what a prompt's text says of it, and its own fading outcomes, as prior and evidence."""

from __future__ import annotations

import numpy as np

from curro.prediction.beta_posterior import BetaPosterior
from curro.prediction.text_posterior import TextPosterior


class Frontier(BetaPosterior):
    """`BetaPosterior` with the prior of `TextPosterior`: outcomes carry over to prompts never tried.

    Args:
        thompson: predictions are draws from the posterior; False: its expectations.
        half_life: of the evidence, in training steps; None: learnt.
        rest: informativeness times the share of a prompt's own evidence that has faded, so that a prompt
            that was just rolled out waits until little is known of it.

    Raises:
        ConfigError: a half-life that is not above 0.
    """

    def __init__(self, *, thompson: bool = True, half_life: float | None = None, rest: bool = False) -> None:
        super().__init__(thompson=thompson)
        self.posterior = TextPosterior(half_life)
        self.rest = rest

    def informativeness(self, prompts: np.ndarray, step: int) -> np.ndarray:
        value = super().informativeness(prompts, step)
        return value * (1 - self.posterior.kept(prompts, step)) if self.rest else value

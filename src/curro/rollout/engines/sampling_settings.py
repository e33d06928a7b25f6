"""How completions are sampled: the settings that engines, estimates and evaluations share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from curro.errors import ConfigError

_GREEDY = 1e-5
"""vLLM takes the likeliest tokens at temperatures below this."""


@dataclass(frozen=True)
class SamplingSettings:
    """Temperature, top-p and length; there is no other way to change the model's distribution.

    Attributes:
        max_new_tokens: tokens of a completion, at most.
        temperature: the logits are divided by it; below 1e-5 the likeliest token is taken.
        top_p: tokens are drawn from the smallest set of likeliest tokens whose probabilities, after the
            temperature, add up to at least `top_p` (nucleus sampling, Holtzman et al. 2020).

    Raises:
        ConfigError: a setting out of range.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens is a number from 1, not {self.max_new_tokens}")
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is a finite number from 0, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is a number above 0 and at most 1, not {self.top_p}")

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest tokens are taken."""
        return self.temperature < _GREEDY

    @property
    def is_plain(self) -> bool:
        """Whether completions are drawn from the model's own distribution."""
        return self.temperature == 1 and self.top_p == 1

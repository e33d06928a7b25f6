"""The interface of an engine, which turns a prompt into rollouts and can be stopped, and its settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from curro.core.errors import ConfigError

Prompt = str | Sequence[dict[str, str]]
"""Plain text, or the messages of a conversation: dicts of `role` and `content`."""


@dataclass(frozen=True)
class Rollout:
    """One completion of a prompt.

    Attributes:
        text: what the model wrote; hostile, never to be executed outside a sandbox.
        token_ids: its tokens without padding; None where the engine does not know them.
        logprobs: natural logarithms of the tokens' probabilities under the distribution sampled from, one for
            each of `token_ids`; None where the engine does not know them.
        finish: "stop" where the model ended it, "length" where the limit cut it.
        error: why there is no completion; None if there is one. A failed rollout is not scored.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish: str = "stop"
    error: str | None = None


class Engine(Protocol):
    """What a `Filler` asks of an engine: `OpenAIEngine` for a server, or a user's own for anything else.

    docs/filling.md has one of ten lines, and the tests simulate engines that fail, wait and die.
    """

    async def generate(self, prompt: Prompt, n: int) -> Sequence[Rollout]:
        """n rollouts of a prompt, failed ones included; cancelling the call stops the generation.

        Raises:
            EngineError: the engine can answer no request any more (a dead server).
            PromptError: it can never answer this one.
        """
        ...

    async def close(self) -> None:
        """Free what the engine holds; nothing is generated after this."""
        ...


_GREEDY = 1e-5
"""Temperatures below this take the likeliest tokens, as in vLLM."""


@dataclass(frozen=True)
class SamplingSettings:
    """Temperature, top-p and length; there is no other way to change the model's distribution.

    Attributes:
        max_new_tokens: tokens of a completion, at most.
        temperature: the logits are divided by it; below 1e-5 the likeliest token is taken.
        top_p: tokens are drawn from the smallest set of likeliest tokens whose probabilities, after the
            temperature, add up to at least `top_p` (nucleus sampling, Holtzman et al. 2020).
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

"""What an engine is: it turns a prompt into rollouts, and can be told to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Prompt = str | Sequence[dict[str, str]]
"""Plain text, or the messages of a conversation: dicts of `role` and `content`."""


@dataclass(frozen=True)
class Rollout:
    """One completion of a prompt.

    Attributes:
        text: what the model wrote; hostile, never to be executed outside a sandbox.
        token_ids: its tokens, where the engine tells; without end-of-sequence padding.
        logprobs: natural logarithms of the tokens' probabilities under the distribution sampled from,
            one for each of `token_ids`, where the engine tells.
        finish: "stop" where the model ended it, "length" where the limit cut it.
        error: why there is no completion; None where there is one. A failed rollout is not scored.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish: str = "stop"
    error: str | None = None


class Engine(Protocol):
    """Where rollouts come from."""

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

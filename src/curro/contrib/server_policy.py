"""The policy on an OpenAI-compatible server, lent to a method that reads how sure of its answers it is.

Tested with stand-ins of servers, and with `transformers serve`, which gives no log-probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from curro.core.errors import ConfigError, EngineError
from curro.core.policy import LIKELIEST, entropy_of_likeliest
from curro.core.text import prompt_text
from curro.reward.signature import result_of
from curro.rollout.engines.engine import Prompt
from curro.rollout.engines.openai_server import Answer, Failure, OpenAIEngine, together


class ServerPolicy:
    """Tells a curriculum the entropies of a server's first tokens; made for `Curriculum.attach`.

    A prompt is sent once, for two greedy tokens and the likeliest ones in their places (`logprobs`). The
    server has to give log-probabilities of temperature 1, as vLLM and SGLang do by default also where they
    sample greedily; `entropy_of_likeliest` says what is made of them. Tokens of one text, as of parts of
    characters, may count as one.

    Args:
        engine: generates the rollouts; its temperature is that of the entropies.
        prompts: gives the prompt of a prompt's number, as a `Filler` takes it.
        likeliest: how many tokens in a place the server is asked for; some give 5 at most.

    Raises:
        ConfigError: likeliest < 1.
    """

    def __init__(
        self, engine: OpenAIEngine, prompts: Callable[[int], Prompt], likeliest: int = LIKELIEST
    ) -> None:
        if likeliest < 1:
            raise ConfigError(f"likeliest is a number of tokens from 1, not {likeliest}")
        self.engine, self.prompts, self.likeliest = engine, prompts, likeliest

    def prompt(self, number: int) -> str:
        """The text of a prompt; of a conversation, all messages but the system's."""
        return prompt_text(self.prompts(number), "\n\n")

    def entropies(self, prompts: Sequence[int]) -> np.ndarray:
        """Entropies in nats, float32 (P, 2), as `Policy.entropies`; all requests are sent at once.

        Raises:
            EngineError: the server is dead, refuses a prompt or the number of likeliest tokens, or has failed
                too often.
            ConfigError: it gives no log-probabilities.
        """
        asked = [self.prompts(int(number)) for number in prompts]
        # a method may ask from a thread whose event loop runs, and connections belong to one loop
        places = result_of(self._likeliest(asked))
        temperature = self.engine.settings.temperature
        return np.array([[entropy_of_likeliest(p, temperature) for p in row] for row in places], np.float32)

    async def _likeliest(self, prompts: Sequence[Prompt]) -> list[list[list[float]]]:
        server = copy.copy(self.engine.server)
        server.enter()
        try:
            model = self.engine.model or await server.only_model()
            options = {"model": model, "max_tokens": 2, "temperature": 0.0, "stream": False}
            answers = await together([server.ask(self._fields(prompt) | options) for prompt in prompts])
        finally:
            await server.close()
        return [self._places(*pair) for pair in zip(prompts, answers, strict=True)]

    def _fields(self, prompt: Prompt) -> dict[str, Any]:
        if isinstance(prompt, str):
            return {"prompt": prompt, "logprobs": self.likeliest}
        return {"messages": list(prompt), "logprobs": True, "top_logprobs": self.likeliest}

    def _places(self, prompt: Prompt, answer: Answer | Failure) -> list[list[float]]:
        where = f"the server at {self.engine.server.url}"
        if isinstance(answer, Failure):
            raise EngineError(f"{where} gives no entropies of the prompt {prompt!r:.80}: {answer.reason}")
        if not all(answer.likeliest) or (answer.text and not answer.likeliest):
            raise ConfigError(
                f"{where} gives no log-probabilities of the likeliest tokens, as vLLM and SGLang do: leave "
                "`entropy` out of the method's features, or ask another server"
            )
        # nothing is uncertain after an end
        return [*answer.likeliest, [0.0], [0.0]][:2]

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> NoReturn:
        """Refused."""
        raise ConfigError("`ServerPolicy` lends entropies alone: choose another method, or train with TRL")

    def backbone(self) -> NoReturn:
        """Refused."""
        self.answer((), 0)

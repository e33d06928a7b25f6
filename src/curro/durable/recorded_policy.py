"""The policy with a memory: what it answered is written down, and told again when calls are replayed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curro.durable.replies import error_of, pack
from curro.errors import CheckpointError, ConfigError
from curro.policy import Policy, Reply


class RecordedPolicy:
    """Stands between a method and the policy, which may be lent late or again.

    Attributes:
        answers: what the policy answered since `begin`, in order, as values and arrays.
    """

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._told: deque[Any] | None = None
        self.answers: list[Any] = []

    def lend(self, policy: Policy) -> None:
        """Ask this policy from now on."""
        self._policy = policy

    def begin(self, told: Iterable[Any] | None = None) -> None:
        """A call begins; `told` are the answers of a call that is replayed, for which nobody is asked."""
        self._told = None if told is None else deque(told)
        self.answers = []

    def answer(self, conversations: Sequence[Sequence[dict[str, str]]], max_tokens: int) -> list[Reply]:
        """`Policy.answer`."""
        found = self._ask(
            lambda policy: {
                "replies": [
                    [reply.text, list(reply.prompt_ids), list(reply.completion_ids)]
                    for reply in policy.answer(conversations, max_tokens)
                ]
            }
        )
        return [Reply(text, tuple(asked), tuple(answered)) for text, asked, answered in found["replies"]]

    def prompt(self, number: int) -> str:
        """`Policy.prompt`."""
        return self._ask(lambda policy: {"text": policy.prompt(number)})["text"]

    def hidden_states(self, prompts: Sequence[int]) -> np.ndarray:
        """`Policy.hidden_states`."""
        return self._ask(lambda policy: {"states": policy.hidden_states(prompts)})["states"]

    def uncounted_rewards(self, prompts: Sequence[int], samples: int, seed: int) -> np.ndarray:
        """`Policy.uncounted_rewards`."""
        return self._ask(lambda policy: {"rewards": policy.uncounted_rewards(prompts, samples, seed)})[
            "rewards"
        ]

    def backbone(self) -> tuple[Any, Any]:
        """Refused: a journal cannot hold a model."""
        if self._policy is not None:
            self._policy.backbone()  # a host that cannot give it says why
        raise ConfigError("this method copies the policy's weights, which a journal of calls cannot hold")

    def _ask(self, question: Callable[[Policy], dict[str, Any]]) -> dict[str, Any]:
        if self._told is not None:
            if not self._told:
                raise CheckpointError("the replayed call asks the policy more than it did when it was made")
            found = self._told.popleft()
        elif self._policy is None:
            raise ConfigError("this method asks the policy, and no host has lent it")
        else:
            try:
                found = question(self._policy)
            except Exception as error:
                self.answers.append(pack(error))
                raise
        self.answers.append(found)
        if "error" in found:
            raise error_of(found["error"])
        return found

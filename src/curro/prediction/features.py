"""What a prompt looks like to a regression: its text, or the policy's own hidden state of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from curro.errors import ConfigError
from curro.policy import Policy
from curro.prediction.text_features import BLOCKS, text_features, text_of
from curro.prompts import PromptTable

LENGTH = 4.0
"""Of a hidden state's features, about that of a line of text's."""


class Features(Protocol):
    """Features of prompts.

    Attributes:
        lasting: whether a prompt's features stay as they are.
        needs_policy: whether they are the policy's.
        knows: whether they predict something before the first fit.
    """

    lasting: bool
    needs_policy: bool
    knows: bool

    def bind(self, table: PromptTable) -> bool:
        """Keep the prompt table; whether there is anything in it to make features of."""
        ...

    def attach(self, policy: Policy) -> None:
        """Keep the policy that the host lends."""
        ...

    def blocks(self, width: int) -> Sequence[int]:
        """How many of D = `width` features are of each kind."""
        ...

    def means(self, width: int) -> np.ndarray:
        """What the weights of a regression are believed to be at first, float64 (D,)."""
        ...

    def of(self, prompts: np.ndarray) -> np.ndarray:
        """Features of prompts (P,), float64 (P, D)."""
        ...


class TextFeatures:
    """Hashed counts of what a prompt's text is made of (`text_features`)."""

    lasting, needs_policy, knows = True, False, False

    def bind(self, table: PromptTable) -> bool:
        self.rows = table.rows
        return table.rows is not None and "prompt" in table.rows[0]

    def attach(self, policy: Policy) -> None:
        pass

    def blocks(self, width: int) -> Sequence[int]:
        return BLOCKS

    def means(self, width: int) -> np.ndarray:
        return np.zeros(width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        assert self.rows is not None
        return text_features([text_of(self.rows[prompt]) for prompt in prompts.tolist()])


class HiddenFeatures:
    """The policy's hidden state of a prompt's last token, as the policy is now: centred, and of length 4.

    So all prompts count alike, whatever the model's scale is. Nothing is kept: features are asked for when
    they are needed, of each prompt once.
    """

    lasting, needs_policy, knows = False, True, False

    def bind(self, table: PromptTable) -> bool:
        return True

    def attach(self, policy: Policy) -> None:
        self.policy = policy

    def blocks(self, width: int) -> Sequence[int]:
        return (width,)

    def means(self, width: int) -> np.ndarray:
        return np.zeros(width)

    def of(self, prompts: np.ndarray) -> np.ndarray:
        distinct, place = np.unique(prompts, return_inverse=True)
        states = self.policy.hidden_states(distinct.tolist()).astype(np.float64)
        states -= states.mean(axis=1, keepdims=True)
        length = np.linalg.norm(states, axis=1, keepdims=True)
        return (LENGTH * states / np.maximum(length, 1e-12))[place]


FEATURES: dict[str, type[Features]] = {"text": TextFeatures, "hidden": HiddenFeatures}


def features_of(name: str) -> Features:
    """Features by name.

    Raises:
        ConfigError: no such name.
    """
    if name not in FEATURES:
        raise ConfigError(f"features is one of {', '.join(FEATURES)}, not {name!r}")
    return FEATURES[name]()

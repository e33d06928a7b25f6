"""Rewards that depend on the completion's length in tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from curro.errors import ConfigError
from curro.reward.completion import token_count
from curro.reward.reward import Row, Score

COMPLETE = 1 - 1e-6
"""A score from which a completion is right, with room for rounding."""


@dataclass(frozen=True)
class Cosine:
    """Correctness scaled by length on a cosine: right and short is best, wrong and short is worst.

    Yeo et al., "Demystifying Long Chain-of-Thought", section 4; PSPO's runs use it with Open R1's values,
    which are the defaults:

        r = longest + (shortest - longest) (1 + cos(pi min(t, limit) / limit)) / 2

    for a completion of t tokens, with the two ends for right or for wrong completions.

    Args:
        verify: tells right (1) from wrong.
        limit: the length in tokens at which the schedule ends; longer completions get the same.
        right_shortest, right_longest, wrong_shortest, wrong_longest: the reward at length 0 and at `limit`.
    """

    verify: Callable[[Sequence[str], Sequence[Row]], Sequence[Score]]
    limit: int
    right_shortest: float = 1.0
    right_longest: float = 0.5
    wrong_shortest: float = -1.0
    wrong_longest: float = -0.5

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ConfigError(f"cosine: limit is a number of tokens from 1, not {self.limit}")

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The scaled scores; None where the verifier gives none.

        Raises:
            RewardError: a row does not say how many tokens its completion has.
        """
        scores = self.verify(completions, rows)
        return [
            None if score is None else self._scaled(score >= COMPLETE, token_count("cosine", row))
            for score, row in zip(scores, rows, strict=True)
        ]

    def _scaled(self, right: bool, tokens: int) -> float:
        shortest, longest = (
            (self.right_shortest, self.right_longest) if right else (self.wrong_shortest, self.wrong_longest)
        )
        progress = min(tokens, self.limit) / self.limit
        return longest + (shortest - longest) * (1 + math.cos(math.pi * progress)) / 2


@dataclass(frozen=True)
class Overlong:
    """A soft penalty for completions near the limit of length (DAPO, equation 13).

    0 up to limit - buffer tokens, then linearly down to -1 at `limit`, -1 beyond.

    Args:
        limit: L_max in tokens.
        buffer: L_cache in tokens.
    """

    limit: int
    buffer: int

    def __post_init__(self) -> None:
        if not 0 < self.buffer <= self.limit:
            raise ConfigError(
                f"overlong: buffer is a number of tokens from 1 to limit = {self.limit}, not {self.buffer}"
            )

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The penalties, -1 to 0.

        Raises:
            RewardError: a row does not say how many tokens its completion has.
        """
        start = self.limit - self.buffer
        over = [(token_count("overlong", row) - start) / self.buffer for row in rows]
        return [0.0 - min(max(0.0, share), 1.0) for share in over]

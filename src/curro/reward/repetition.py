"""A penalty for repeating oneself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from curro.errors import ConfigError
from curro.reward.reward import Row, Score


@dataclass(frozen=True)
class Repetition:
    """Minus the share of n-grams of words that stood in the completion before.

    Yeo et al., "Demystifying Long Chain-of-Thought", appendix B, in Open R1's form: with N n-grams of which
    D are different the score is -(1 - D / N), and 0 for fewer than n words. Words are parted by white space
    and compared in lower case, so a text in a language without spaces is one word.

    Args:
        n: the words of an n-gram.
    """

    n: int = 3

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"repetition: n is a number of words from 1, not {self.n}")

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The penalties, above -1 and up to 0."""
        return [self._penalty(text) for text in completions]

    def _penalty(self, text: str) -> float:
        words = text.lower().split()
        number = len(words) - self.n + 1
        if number < 1:
            return 0.0
        return len({tuple(words[i : i + self.n]) for i in range(number)}) / number - 1.0

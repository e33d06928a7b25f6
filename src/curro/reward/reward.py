"""What every verifier is to the rest: batches of completions in, checked numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from curro.errors import RewardError

Row = dict[str, Any]
Score = float | None


@dataclass(frozen=True)
class Reward:
    """A verifier by name.

    Attributes:
        name: for messages and metrics.
        verify: scores a batch: completions and their prompts' rows, both of length B, in; B scores out.
    """

    name: str
    verify: Callable[[Sequence[str], Sequence[Row]], Sequence[Score]]

    def score(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The reward of every completion, None where it was not scored.

        Args:
            completions: B texts, as the model wrote them.
            rows: the B rows of the prompts they answer.

        Raises:
            RewardError: a score is NaN, infinite or no number (the message has the prompt's key), or the
                lengths differ.
        """
        if len(completions) != len(rows):
            raise RewardError(f"reward {self.name!r}: {len(completions)} completions of {len(rows)} prompts")
        scores = self.verify(completions, rows)
        if len(scores) != len(rows):
            raise RewardError(f"reward {self.name!r}: {len(scores)} scores of {len(rows)} completions")
        return [self._checked(score, row) for score, row in zip(scores, rows, strict=True)]

    def _checked(self, score: Any, row: Row) -> Score:
        if score is None:
            return None
        try:
            number = float(score)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise RewardError(
                f"reward {self.name!r} gave {score!r:.50} for the prompt {key(row)}: "
                "a reward is a finite number, or None for a completion that is not scored"
            )
        return number


def key(row: Row) -> str:
    """How messages name a prompt: its key, or the prompt where it has none."""
    return repr(row.get("key", row.get("prompt")))[:200]

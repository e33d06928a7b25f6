"""Whether a completion thinks and then answers (Bae et al., "Online Difficulty Filtering", appendix D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from curro.reward.completion import is_cut
from curro.reward.reward import Row, Score

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Format:
    """0.2 for each of five constraints: 1.0 for a completion that keeps all of them.

    1. The completion begins with `<think>`.
    2. The thought is closed properly: there is one `</think>`, and no second `<think>`.
    3. The thought, between the tags, is not blank.
    4. The summary, after `</think>`, is not blank.
    5. The completion ends with its end of sequence: the limit of length did not cut it.

    Args:
        opened: the chat template writes `<think>` itself, so that the completion begins after it.
    """

    opened: bool = False

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The share of the constraints that each completion keeps.

        Raises:
            RewardError: a row does not say whether its completion was cut.
        """
        return [
            sum(self._kept(text, is_cut("format", row))) / 5
            for text, row in zip(completions, rows, strict=True)
        ]

    def _kept(self, text: str, cut: bool) -> tuple[bool, bool, bool, bool, bool]:
        text = OPEN + text if self.opened else text
        before, closing, summary = text.partition(CLOSE)
        _, opening, thought = before.partition(OPEN)
        closed = bool(opening and closing) and text.count(CLOSE) == text.count(OPEN) == 1
        return (
            text.startswith(OPEN),
            closed,
            bool(opening and closing and thought.strip()),
            bool(closing and summary.strip()),
            not cut,
        )

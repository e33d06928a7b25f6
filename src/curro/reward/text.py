"""Rewards that a text itself decides: an equal answer, a format, a language, a length."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from curro.core.errors import ConfigError
from curro.data.raw import Row
from curro.reward import answers, choices
from curro.reward.completion import CUT, TOKENS, fact
from curro.reward.math import Math
from curro.reward.notation import unwrapped
from curro.reward.reward import SUCCESS, Score, Unscored, Verdict


@dataclass(frozen=True)
class Exact:
    r"""Right if the completion's answer is the row's answer, character by character.

    The completion's answer is read outside of thoughts, as by `math`: between the last answer tags, in the
    last box, after the last `####`, after the last "answer is"; else all of it is the answer. Dollars, bold,
    quotes, `\text{}`, white space and a full stop around it do not count. The letter of a choice may
    be written in any form. A row may have a list of accepted answers. A row whose answer only says that
    there is none ("", NaN, "N/A") is not scored.

    Source: curro's own.

    Args:
        opened: the chat template writes `<think>` itself, so that the completion begins inside a thought.
    """

    opened: bool = False

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """1.0 where the answers are equal, 0.0 where not, None where the row has no answer."""
        return [self._score(text, row) for text, row in zip(completions, rows, strict=True)]

    def _score(self, completion: str, row: Row) -> Verdict:
        golds = answers.accepted(row)
        if not golds:
            return answers.unanswered(row)
        text = answers.spoken(completion, row, opened=self.opened)
        return float(any(self._is_right(text, gold, row) for gold in golds))

    def _is_right(self, text: str, gold: str, row: Row) -> bool:
        found = [answer for answer in answers.candidates(text) if answer] or [text]
        choice = choices.choice_of(gold, choices.options_of(row))
        if choice is not None:
            score = choices.judge(found, text if found == [text] else "", choice)
            if score is not None:
                return score == 1.0
        is_whole = text.strip() == gold.strip() or unwrapped(found[0]) == unwrapped(gold)
        return is_whole and bool(text.strip())


OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Format:
    """0.2 for each of five constraints: 1.0 for a completion that keeps all of them.

    1. The completion begins with `<think>`.
    2. The thought is closed properly: there is one `</think>`, and no second `<think>`.
    3. The thought, between the tags, is not blank.
    4. The summary, after `</think>`, is not blank.
    5. The completion ends with its end of sequence: the limit of length did not cut it.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", appendix D.

    Args:
        opened: the chat template writes `<think>` itself, so that the completion begins after it.
    """

    opened: bool = False

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The share of the constraints that each completion keeps."""
        return [
            sum(self._kept(text, fact("format", row, CUT))) / 5
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


_FORMULA = re.compile(
    r"```.*?(?:```|\Z)|\$\$?[^$]*\$\$?|\\\((?:(?!\\[()]).)*\\\)|\\\[(?:(?!\\[\[\]]).)*\\\]", re.DOTALL
)
_GREEK = re.compile(r"[\u0370-\u03ff]+")
_SYMBOLS = ("LATIN", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER")
"""How Unicode's names of letters begin that a text in English has."""


def language(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    """The share of characters that are letters of the Latin alphabet, digits, symbols or white space.

    Letters of mathematics are symbols: letters of its alphabets (double-struck and the like), and
    Greek ones in formulas or where no more than two stand together (θ, Δα). The first 100,000 characters
    count.

    Source: "Online Difficulty Filtering for Reasoning Oriented RL", appendix D.
    """
    return [_latin_share(text[:100_000]) for text in completions]


def _latin_share(text: str) -> float:
    prose = _FORMULA.sub(lambda formula: _GREEK.sub(" ", formula[0]), text)
    prose = _GREEK.sub(lambda word: word[0] if len(word[0]) > 2 else " ", prose)
    foreign = sum(
        c.isalpha() and not c.isascii() and not unicodedata.name(c, "").startswith(_SYMBOLS) for c in prose
    )
    return 1 - foreign / len(text) if text else 1.0


_CLOSED = "\n</think>\n"


def closed_thought(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    """1.0 where a line of `</think>` alone stands exactly once, else 0.0.

    Source: the code of PSPO's authors.
    """
    return [float(text.count(_CLOSED) == 1) for text in completions]


@dataclass(frozen=True)
class Cosine:
    """Correctness scaled by length on a cosine: right and short is best; by default wrong and short is worst.

    The defaults are the values of the paper below. The authors of PSPO have `wrong_shortest=0` and
    `wrong_longest=-0.5`, as Open R1's script has: a wrong answer costs more the longer it is.

        r = longest + (shortest - longest) (1 + cos(pi min(t, limit) / limit)) / 2

    for a completion of length t, with the two ends for right or for wrong completions.

    Source: Yeo et al., "Demystifying Long Chain-of-Thought", section 4.

    Args:
        limit: the length at which the schedule ends; longer completions get the same.
        of: the reward that tells right from wrong: math or exact.
        by: what lengths are counted in: "tokens", or "characters", as PSPO's authors do.
        right_shortest, right_longest, wrong_shortest, wrong_longest: the reward at length 0 and at `limit`.
    """

    limit: int
    of: str = "math"
    right_shortest: float = 1.0
    right_longest: float = 0.5
    wrong_shortest: float = -1.0
    wrong_longest: float = -0.5
    by: str = "tokens"

    def __post_init__(self) -> None:
        if self.of not in _CORRECT:
            raise ConfigError(f"cosine: of is one of {', '.join(_CORRECT)}, not {self.of!r}")
        if self.by not in ("tokens", "characters"):
            raise ConfigError(f"cosine: by is tokens or characters, not {self.by!r}")
        if self.limit < 1:
            raise ConfigError(f"cosine: limit is a number of {self.by} from 1, not {self.limit}")

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """The scaled scores; the verifier's verdict where it gives none."""
        scores = _CORRECT[self.of](completions, rows)
        return [
            score
            if score is None or isinstance(score, Unscored)
            else self._scaled(score >= SUCCESS, self._length(text, row))
            for score, text, row in zip(scores, completions, rows, strict=True)
        ]

    def _length(self, text: str, row: Row) -> int:
        return len(text) if self.by == "characters" else fact("cosine", row, TOKENS)

    def _scaled(self, is_right: bool, length: int) -> float:
        shortest, longest = (
            (self.right_shortest, self.right_longest)
            if is_right
            else (self.wrong_shortest, self.wrong_longest)
        )
        progress = min(length, self.limit) / self.limit
        return longest + (shortest - longest) * (1 + math.cos(math.pi * progress)) / 2


_CORRECT: dict[str, Math | Exact] = {"math": Math(), "exact": Exact()}


@dataclass(frozen=True)
class Overlong:
    """A soft penalty for completions near the limit of length.

    0 up to limit - buffer tokens, then linearly down to -1 at `limit`, -1 beyond.

    Source: DAPO, equation 13.

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
        """The penalties, -1 to 0."""
        start = self.limit - self.buffer
        over = [(fact("overlong", row, TOKENS) - start) / self.buffer for row in rows]
        return [0.0 - min(max(0.0, share), 1.0) for share in over]

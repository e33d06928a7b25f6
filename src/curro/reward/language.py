"""Whether a completion keeps to one language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from curro.core.errors import ConfigError, RewardError
from curro.core.text import prompt_text
from curro.data.raw import Row
from curro.reward.reward import Score

SHORTEST = 20
"""Letters that a piece of text must have to be given to the detector."""

_NO_PROSE = re.compile(
    r"```.*?(?:```|\Z)|\$\$?[^$]*\$\$?"
    r"|\\\((?:(?!\\[()]).)*\\\)|\\\[(?:(?!\\[\[\]]).)*\\\]"  # no formula holds the start of another
    r"|\\[A-Za-z]+|<[^<>\n]{1,40}>",
    re.DOTALL,
)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|(?:(?![\u3040-\u30ff\u3400-\u9fff])[^\W\d_])+")
_EAST_ASIAN = "CJK"
_SCRIPTS = {
    **dict.fromkeys(("zh", "ja"), _EAST_ASIAN),
    **dict.fromkeys(("ru", "uk", "bg", "be", "mk", "sr", "kk", "ky", "mn"), "CYRILLIC"),
    **dict.fromkeys(("ar", "fa", "ur", "ps", "ug"), "ARABIC"),
    **dict.fromkeys(("hi", "mr", "ne"), "DEVANAGARI"),
    "ko": "HANGUL", "el": "GREEK", "he": "HEBREW", "th": "THAI", "ka": "GEORGIAN", "hy": "ARMENIAN",
    "bn": "BENGALI", "ta": "TAMIL", "te": "TELUGU", "gu": "GUJARATI", "kn": "KANNADA", "ml": "MALAYALAM",
}  # fmt: skip
"""The scripts of languages that are not written in Latin letters."""

_LONGEST = 100_000
"""How many characters of a text are read."""

_ENDS = re.compile(r"[.!?;:\n\u3002\uff01\uff1f]+")


@dataclass(frozen=True)
class Language:
    """The share of the completion's letters that belong to the language of the prompt.

    DeepSeek-R1's reward is the share of words in the target language; the paper on online difficulty
    filtering counts characters instead. Here sentences are given to py3langid
    (Naive Bayes over n-grams of bytes, without randomness), one by one. Words in another script than their
    neighbours are a piece of their own. A piece of fewer than 20 letters says too little: it counts as the
    target's if it is in the target's script. So do all pieces where the prompt has fewer than 20 letters:
    its language is not known then, and its script, that of most of its letters, is the target's. Single
    letters, code, formulas, LaTeX commands and tags are left out, as they are not prose; a completion without
    any prose has 1, and so has every completion of a prompt without any.

    Source: Guo et al., "DeepSeek-R1"; "Online Difficulty Filtering for Reasoning Oriented RL", appendix D.

    Args:
        target: an ISO 639-1 code ("en"); by default the language that the detector finds in the prompt, if
            that has at least 20 letters.
        by: "detector", or "characters" for the paper's count: the share of characters that are letters of
            the Latin alphabet, digits, symbols or white space, which takes English as the target. Letters
            of mathematics are symbols: the mathematical alphabets (double-struck and the like), and
            Greek ones in formulas or if no more than two stand together (θ, Δα).
    """

    target: str | None = None
    by: str = "detector"

    def __post_init__(self) -> None:
        if self.by not in ("detector", "characters"):
            raise ConfigError(f"language: by is detector or characters, not {self.by!r}")
        if self.by == "characters" and self.target not in (None, "en"):
            raise ConfigError("language: by=characters takes English as the target: leave target out")

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """The shares, 0 to 1."""
        if self.by == "characters":
            return [_latin_share(text) for text in completions]
        return [
            consistency(text, self.target)
            if self.target is not None
            else _consistency_with(_prose(prompt_text(row["prompt"], with_system=True)), text)
            for text, row in zip(completions, rows, strict=True)
        ]


def consistency(text: str, target: str) -> float:
    """The share of the letters of the text's prose that are in the target language."""
    return _share(text, _SCRIPTS.get(target, "LATIN"), target)


def _consistency_with(prompt: str, text: str) -> float:
    """As `consistency`, with the language of the prompt's prose, or with its script if it is short."""
    letters: Counter[str] = Counter()
    for script, piece in _by_script(prompt):
        letters[script] += sum(map(str.isalpha, piece))
    if letters.total() >= SHORTEST:
        return consistency(text, _detected(prompt))
    return _share(text, max(letters, key=letters.__getitem__), None) if letters else 1.0


def _share(text: str, target_script: str, target: str | None) -> float:
    """The share of the prose's letters in the target language; None: in its script."""
    in_target = letters = 0
    for sentence in _ENDS.split(_prose(text)):
        for script, piece in _by_script(sentence):
            number = sum(map(str.isalpha, piece))
            is_long = target is not None and number >= SHORTEST
            is_target = _detected(piece) == target if is_long else script == target_script
            in_target, letters = in_target + is_target * number, letters + number
    return in_target / letters if letters else 1.0


def _by_script(sentence: str) -> list[tuple[str, str]]:
    """The sentence's words, joined as long as their script is the same; single letters are symbols."""
    pieces: list[tuple[str, str]] = []
    for word in _WORD.findall(sentence):
        script = _script(word[0])
        if len(word) == 1 and script != _EAST_ASIAN:
            continue
        if pieces and pieces[-1][0] == script:
            pieces[-1] = script, f"{pieces[-1][1]} {word}"
        else:
            pieces.append((script, word))
    return pieces


@cache
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0]
    return _EAST_ASIAN if name in ("HIRAGANA", "KATAKANA", "CJK") else name


_GREEK = re.compile(r"[\u0370-\u03ff]+")
_ALPHABETS = ("MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER")
"""How Unicode's names of letters begin that count as symbols."""


def _latin_share(text: str) -> float:
    if not text:
        return 1.0
    text = text[:_LONGEST]
    prose = _NO_PROSE.sub(lambda formula: _GREEK.sub(" ", formula[0]), text)
    prose = _GREEK.sub(lambda word: word[0] if len(word[0]) > 2 else " ", prose)
    foreign = sum(c.isalpha() and _script(c) not in ("LATIN", *_ALPHABETS) for c in prose)
    return 1 - foreign / len(text)


def _prose(text: str) -> str:
    return _NO_PROSE.sub(" ", text[:_LONGEST])


@lru_cache(4096)
def _detected(text: str) -> str:
    try:
        import py3langid
    except ImportError as error:
        raise RewardError(f"the reward 'language' needs {error.name}: pip install 'curro[train]'") from None
    return py3langid.classify(text)[0]

r"""Multiple choice: the letter that an answer names, and the text of its option."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from curro.data.raw import Row
from curro.reward.answers import HEDGE
from curro.reward.literals import read
from curro.reward.notation import as_latex, ends_with, unwrapped, words
from curro.reward.reward import last_message

_STYLE = re.compile(
    r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|sf)|mbox|boldsymbol|bf|rm)(?![a-z])\s*|[{}*_$`]|\\[ ,;()\[\]]|~"
)
_LETTER = re.compile(
    r"""(?i:(?:the\s+)?(?:(?:correct|right|best|final)\s+)?(?:option|choice|answer|alternative)?\s*(?:is|:)?\s*)(?:
      [(\[<]\s*(?P<a>[A-Za-z])\s*[)\]>](?=\W|\Z|[A-Z0-9])
    | (?P<b>[A-Ja-j])\s*[.!)]?\Z
    | (?P<c>[A-J])\s*(?:[.):,;=-]|\\colon)(?!\S*[(^_])
    | (?P<d>[B-HJ])\s+(?!(?:is|are|was)\s+(?:wrong|incorrect|false|not)|isn't|can|and\b|nor\b)(?=[a-z(\\0-9])
    | (?P<e>A)\s+(?:because|since|as|is\ correct|is\ the)\b
    )(?!HEDGE)""".replace("HEDGE", HEDGE),
    re.VERBOSE,
)
_CALLED = re.compile(
    r"""(?:(?i:\b(?:option|choice|alternative|answer))\s*(?i:is|:)?\s*[(\[]?(?P<a>[A-J])[)\]]?(?![\w'])
    | (?<![\w(])[(](?P<b>[A-J])[)](?!\w)
    | (?<![\w'])(?P<c>[A-J])\s+(?:is\s+(?:the\s+)?(?:correct|right|best|true)|fits|remains)\b
    | (?:选项|選項|选择|选|選)\s*[(]?(?P<f>[A-J])(?![A-Za-z])
    | (?i:\b(?:choose|chose|pick|select)\s+)(?P<e>[A-J])(?!\s*[,/]|\s+(?:and|or)\b)(?![\w'])
    | (?:\A|[.:;,!\n=\u2192\u9009\u4e3a\u662f]|(?i:\b(?:is|be|so|thus|hence|therefore|with|picked
        |selected|to|only|leaves|leaving|matches|it's|that's|namely)))\s*\W?(?P<d>[A-J])[^\w?]*\Z)
    (?!HEDGE|\s+(?:is|are|was)\s+(?:wrong|incorrect|false|not)|\s+(?:cannot|can't|isn't))""".replace(
        "HEDGE", HEDGE
    ),
    re.VERBOSE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|cannot|neither|nor|never|except|without|between)\b|n't\b)(?:(?!\b(?:so|but|hence|thus)\b)[^.;:,!?\n])*\Z",
    re.IGNORECASE,
)
"""The words before a letter that say it is not the answer."""

_UNDECIDED = re.compile(r"\s*(?:and|or|,|/)\s*")
_SEVERAL = re.compile(
    r"[(\[]?[A-J][)\]]?(?:(?:\s*[,;&/\u3001]\s*|\s*(?:,\s*)?and\s+)[(\[]?[A-J][)\]]?)+\.?|[A-J]{2,}"
)


def _bare(text: str) -> str:
    return _STYLE.sub(" ", unwrapped(text).replace("[[", "(").replace("]]", ")")).strip()


def letter_of(text: str) -> str | None:
    r"""The letter that an answer begins with: "(B)", "B.", "B) 5", "\text{B}", "option B", "b"; else None."""
    text = re.sub(r"\(\s+", "(", _bare(text))
    match = _LETTER.match(text)
    return None if match is None else next(group for group in match.groups() if group).upper()


_LABEL = re.compile(r"^[^\w\n]*?([A-J])[.):]\W*\s(?!is\b|are\b|was\b|can)\w", re.MULTILINE)


def called_letter(text: str) -> str | None:
    """The letter that prose calls right last: "so option B", "(B)", "B is correct", or at its end."""
    text = as_latex(text).replace("*", "").strip()
    text = re.sub(r"((?:option|choice|answer) is \()([a-j])(?=\))", lambda m: m[1] + m[2].upper(), text)
    alone = set(re.findall(r"^[^\w\n]*([A-J])[^\w\n]*$", text, re.MULTILINE))
    if len(alone) == 1 and re.match(r"\W*[A-J]\W*\n", text):
        return alone.pop()
    labels = list(_LABEL.finditer(text))
    if len(labels) == 1 and labels[0].start(1) > text.rfind("\n") > 0:
        return labels[0][1]
    calls = [call for call in _CALLED.finditer(text) if not _DENIED.search(text[: _place(call)][-100:])]
    if (
        not calls
        or re.search(r"\b[A-J]\W*(?:\s+(?:or|and)|[/,])\s*\W?\Z", text[: _place(calls[-1])])
        or (len(calls) > 1 and _UNDECIDED.fullmatch(text[calls[-2].end() : calls[-1].start()]))
    ):
        return None
    return next(group for group in calls[-1].groups() if group)


def _place(call: re.Match[str]) -> int:
    """Where the letter of a call stands."""
    return next(call.start(name) for name, letter in call.groupdict().items() if letter)


def letters_of(text: str) -> frozenset[str] | None:
    """The letters of an answer that names several ("A, C", "AC", "(A) and (C)"); else None."""
    text = re.sub(r"\A(?i:.*\b(?:option|choice|answer)s(?:\s+are)?\b)\s*:?", "", _bare(text)).strip()
    letters = re.findall(r"[A-J]", re.sub(r"[a-z]", "", text))
    is_list = _SEVERAL.fullmatch(text) is not None and len(letters) == len(set(letters))
    return frozenset(letters) if is_list and (letters == sorted(letters) or not text.isalpha()) else None


_GOLD = re.compile(
    r"(?i:(?:option|choice|answer)\s*:?\s*)?(?:[(\[]\s*([A-Z])\s*[)\]](.*)|([A-J])|([A-J])\s*[.):]\s*((?![a-z]).*))",
    re.DOTALL,
)
_LETTER_BEFORE = re.compile(r"\A.*?[(\[]?[A-Z]\s*[)\].:]+(?:\s*\}+)?(?:\\ |~|\s)*")


@dataclass(frozen=True)
class RightOption:
    """The right one of several options.

    Attributes:
        letters: one, or several where all of them are to be named.
        text: the option's; "" if it is not known.
    """

    letters: frozenset[str]
    text: str = ""


def choice_of(gold: str, options: Mapping[str, str]) -> RightOption | None:
    r"""The choice that a row's answer is: a letter in any form, an option's text, or its number from 0.

    Args:
        gold: "B", "(B)", "A, C", `\textbf{(B)}\ 12`, or the text of an option.
        options: the row's options by letter.
    """
    several = letters_of(gold)
    if several is not None:
        return RightOption(several)
    match = _GOLD.fullmatch(_bare(gold))
    if match is not None:
        letter = match[1] or match[3] or match[4]
        text = _LETTER_BEFORE.sub("", unwrapped(gold), count=1) if match[2] or match[5] else ""
        return RightOption(frozenset(letter), options.get(letter) or unwrapped(text))
    letters = [letter for letter, text in options.items() if words(text) == words(gold)]
    if not letters and len(gold) == 1 and gold.upper() in options:
        letters = [gold.upper()]
    number = gold.strip()  # which takes more characters for white space than `int` does
    if not letters and number.isdecimal() and len(number) < 4 and int(number) < len(options):
        letters = [list(options)[int(number)]]
    return RightOption(frozenset(letters), options[letters[0]]) if len(letters) == 1 else None


_NUMERAL = re.compile(
    r"(?:^[^\w\n]*|(?i:\b(?:option|choice|answer)\s*(?:is|:)?\s*)\W?)(\d)(?=\W*$|[.):]+\s|\sis\s(?:right|correct))",
    re.MULTILINE,
)
"""The number that stands for an option, in data sets such as ARC that name options so."""


def judge(found: Sequence[str], prose: str, choice: RightOption) -> float | None:
    """The score of a completion that names a letter or writes the right option's text; else None.

    Args:
        found: the texts that may be the completion's answer, the most certain one first.
        prose: the completion outside of thoughts, if no answer is marked in it.
    """
    if choice.text and (words(found[0]) == words(choice.text) or ends_with(found[0], choice.text)):
        return 1.0
    if set(_NUMERAL.findall(_bare(found[0]))) == choice.letters:
        return 1.0
    named = next((letters for answer in found if (letters := letters_of(answer))), None)
    if named is not None or len(choice.letters) > 1:
        is_or = re.search(r"\bor\b", found[0]) is not None
        return float(named == choice.letters) if named else (0.0 if is_or else None)
    letter = called_letter(prose) or next((letter for answer in found if (letter := letter_of(answer))), None)
    return None if letter is None else float(letter in choice.letters)


_LINE = re.compile(r"^[^\S\n]*[(\[]?([A-J])[.):\]]\)?\s+(\S.*)$", re.MULTILINE)
_STYLED_LETTER = r"\\(?:text(?:bf)?|math(?:rm|bf))\s*\{\s*\(?([A-J])\)?\s*\}"
_INLINE = re.compile(
    rf"{_STYLED_LETTER}\s*(?:\\ |~|:|\)|\s)*"
    r"(.*?)(?=\\q?quad|\\(?:text(?:bf)?|math(?:rm|bf))\s*\{\s*\(?[A-J]\)?|\n|\$|\Z)"
)
_IN_LINE = re.compile(r"\(([A-J])\)\s*+([^()\n]*+)(?=\([A-J]\)|\n|\Z)")
_LISTED = re.compile(r"\b([a-jA-J])\s*[.):](.*?)(?=\b[a-jA-J]\s*[.):]|\Z)", re.DOTALL)


def options_of(row: Row) -> dict[str, str]:
    """The options of a row by letter: of a column `options` or `choices`, or of its prompt's text."""
    for column in ("options", "choices"):
        given = read(row.get(column))
        if given is None and isinstance(row.get(column), str):  # AQuA and MathQA: "a ) 31 , b ) 33"
            listed = _LISTED.findall(row[column])
            given = {letter.upper(): text.strip().removesuffix(",").rstrip() for letter, text in listed}
        if isinstance(given, Mapping) and {"label", "text"} <= set(given):  # ARC
            return dict(zip(map(str, given["label"]), map(str, given["text"]), strict=False))
        if isinstance(given, Mapping) and given:
            return {str(letter): str(text) for letter, text in given.items()}
        if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
            texts = [re.sub(r"^\s*\(?[A-J][.):]\)?\s*", "", str(text)) for text in given]
            return {chr(ord("A") + i): text for i, text in enumerate(texts[:26])}
    return _in_prompt(last_message(row))


def _in_prompt(prompt: str) -> dict[str, str]:
    for pattern in (_LINE, _INLINE, _IN_LINE):
        options: dict[str, str] = {}
        for letter, text in pattern.findall(prompt):
            if letter == chr(ord("A") + len(options)):
                options[letter] = text.strip()
        if len(options) > 1:
            return options
    return {}

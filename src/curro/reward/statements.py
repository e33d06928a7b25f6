"""What words around the number of an answer say: that it is not the answer, a bound, or where it holds."""

from __future__ import annotations

import re

from curro.reward.notation import pairs

_NUMBER_AT_END = r"\s*\}?\s*[$(\\]*-?\d\S*\Z"
OTHER_THAN = re.compile(
    r"(?:\bnot|n't|\bcannot|\bexcept|\bneither|\bn'est pas|\bnicht)\s*\}?(?: [a-z]+)?\s+\S*\d\S*\Z"
    r"|(?:\b(?:than|over|under|above|below|exceeding|half|twice|double|triple|divides|like|mod|modulo"
    r"|(?:half|third|quarter|multiples?|factors?|divisors?|out|square|cube|root|power|instead|reciprocal) of)"
    rf"\b){_NUMBER_AT_END}"
    rf"|(?:n't|\bnot)\s+(?:think|believe|sure)\b[^.]*{_NUMBER_AT_END}"
    r"|\d\S*\s*(?:\\text\{\s*)?\s*(?:(?:is|are|was|do|does|did|could|would)(?:n't|\s+not)\b"
    r"|(?:is|are|was)\s+(?:wrong|incorrect)|cannot|can't|fails)\b[^\d)]*\Z"
    r"|\d\S*\s+(?:\\text\{\s*)?(?:less|more|fewer|greater) than\b[^\d]*\Z"
    r"|(?:\bfrom\s+|\A)\S*\d\S*\s*(?:\\text\{\s*)?\bto\b\s*\}?\s*\S*\d\S*\Z"
    r"|\?\W*(?:(?:no|wrong)\W*)?\Z",
    re.IGNORECASE,
)
"""Says that a number is not the answer."""

BOUND = re.compile(
    r"\A\s*(?:\\(?:[lg](?:eq?|t)|neq?)(?![a-z])|<(?!<)|>(?!>)|[\u2260\u2264\u2265])"
    r"|\A\s*(?:\\text\{\s*)?(?:at (?:least|most)|(?:more|less) than)"
    r"|\b(?:at (?:least|most)|or (?:more|less|fewer|greater|higher|lower|above|below))\s*\}?\s*\Z",
    re.IGNORECASE,
)


def without_place(answer: str) -> str | None:
    """12 of "12 when x = 3" or "12 (x = 3)"; None where no such place, or more than it, follows a number."""
    place = _PLACE.search(answer)
    if not place or _MORE.search(answer[place.end() :]):
        return None
    head = re.sub(
        r"(?:[\s,;(~]|\\[,;: ]|\\q?quad|\\text\s*\{|\b(?:which|is|attained|reached|occurring|occurs)\b)+\Z",
        "",
        answer[: place.start()],
    )
    return head if re.search(r"\d", head) else None


def before_variable(text: str) -> str | None:
    """What the last sentence of a text says before the place that a variable names: "It is 12 at x = 2."."""
    sentence = re.split(r"(?<=[.!?])\s+", text[-1000:].strip().rpartition("\n")[2])[-1]
    return without_place(sentence) if re.search(r"\b(?:at|when|for) [$(\\]*[a-z]\s*=", sentence) else None


_PLACE = re.compile(r"(?<![A-Za-z\\])(?:(?:when|at|where|for|since|because)\b|\(\s*[a-z]\s*=)")
_MORE = re.compile(
    r"\b(?:is|are|gives|otherwise|else|and|or|most|least)\b|[;=][^=]*=|,(?![^()]*\))", re.DOTALL
)
CONDITION = re.compile(
    r"\b(?:if|when|where|unless|any|all|every|each|by|least|most|more|less|fewer|than|between|except|multiples?"
    r"|integers?|primes?)\b",
    re.IGNORECASE,
)
"""Words with which an answer is more than the formula in it."""


def are_opposite(first: str, second: str) -> bool:
    """Whether one of two texts in small letters has a word of which the other has the opposite."""
    names = set(re.findall(r"[a-z]+", first)), set(re.findall(r"[a-z]+", second))
    only = names[0] - names[1], names[1] - names[0]
    return any((a in only[0] and b in only[1]) or (b in only[0] and a in only[1]) for a, b in _OPPOSITES)


_OPPOSITES = pairs(
    "increase decrease more less more fewer above below left right up down north south east west profit loss "
    "gain loss clockwise counterclockwise upward downward upwards downwards older younger before after"
)

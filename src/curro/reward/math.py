r"""Mathematical equality of the completion's answer and the row's.

`curro.reward.answers` finds the answer. Texts, letters and plain numbers are compared here, and all other
answers by math-verify. It hands text to SymPy, which can take for ever on a short text (9^9^9^9), and its own
time limits are signals, which only the main thread may use. So it runs in worker processes
(`curro.reward.checks`), and any thread may ask for scores. A text that takes too much processor time or
memory there is a wrong answer. If a check waits too long for a busy machine, or a batch takes longer than a
minute, the answers that are left are not scored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from curro.data.raw import Row
from curro.reward import answers, choices, notation, quantities, statements
from curro.reward.checks import checks
from curro.reward.literals import read
from curro.reward.reward import Score, Unscored, Verdict, last_message

_T = TypeVar("_T")

Job = tuple[str, str]
"""The row's answer and the completion's, as `curro.reward.math_check` takes them."""


@dataclass(frozen=True)
class Math:
    r"""Right if the completion's answer equals the row's answer mathematically.

    The completion's answer is read outside of thoughts: between the last answer tags, else in the last box,
    else after the last `####`, else after the last "answer is" or "answer:", else the last formula or number.
    An answer of more than 1,000 characters is wrong. The row's answer may be a bare expression, LaTeX between
    dollars, a worked solution that ends in a box or after `####`, the letter of a choice, or a list of
    accepted answers. Rows whose answer only says that there is none ("", NaN, "N/A", "proof") are not scored.

    Source: the library math-verify; numbers, units, dates, ratios, bases and choices are curro's own.

    Args:
        boxed: only an answer in a box counts; a completion without one is wrong.
        opened: the chat template writes `<think>` itself, so that the completion begins inside a thought.
    """

    boxed: bool = False
    opened: bool = False

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Verdict]:
        """1.0 where the answers are equal, else 0.0; None without an answer, or where the time ran out."""
        decided = [self._decide(text, row) for text, row in zip(completions, rows, strict=True)]
        jobs = [job for result in decided if isinstance(result, list) for job in result]
        checked = iter(checks("curro.reward.math_check").scores(jobs))
        return [
            _any([next(checked) for _ in result]) if isinstance(result, list) else result
            for result in decided
        ]

    def _decide(self, completion: str, row: Row) -> Verdict | list[Job]:
        """The score where the texts decide it, else the jobs of which one must be right."""
        golds = answers.accepted(row)
        if not golds:
            return answers.unanswered(row)
        if objects := [gold for gold in golds if gold[0] == "{" and isinstance(read(gold), dict)]:
            return Unscored(f"the answer {objects[0]!r:.60} is an object with names, and not an answer alone")
        text = answers.spoken(completion, row, opened=self.opened)
        if self.boxed:
            boxed = answers.last_boxed(text)
            text = "" if boxed is None else f"\\boxed{{{boxed}}}"
        return judge(text, golds, row)


def judge(text: str, golds: Sequence[str], row: Row) -> Verdict | list[Job]:
    """The score of a text outside of thoughts, or the jobs for math-verify of which one must be right."""
    text = notation.symbolic(text)
    found = [answer for answer in answers.candidates(text) if answer]
    if not text.strip() or (not found and answers.marked(text) is not None):
        return 0.0
    found = found or [text]
    options = choices.options_of(row)
    jobs: list[Job] = []
    unscored: Unscored | None = None
    for gold in map(notation.symbolic, golds):
        choice = choices.choice_of(gold, options)
        result: Verdict | Job = None
        if choice is not None:
            result = choices.judge(found, text if found == [text] else "", choice)
            gold = choice.text or gold
        if result is None:
            result = _compare(_Pair(gold, _readable(found, text, gold), _asks_percent(row)))
        if result == 1.0:
            return 1.0
        if isinstance(result, tuple):
            jobs.append(result)
        elif isinstance(result, Unscored):
            unscored = result
    return jobs or unscored or 0.0


def _readable(found: Sequence[str], text: str, gold: str) -> str:
    """The first candidate that is no mere prose, else the last formula or number of an unmarked answer."""
    if notation.words(found[0]) == notation.words(gold) or _is_wordy(gold):
        return found[0]
    if len(found[0]) <= notation.LONGEST and any(read(found[0]) for read in _WHOLE):
        return found[0]
    for answer in found:
        is_mere_prose = notation.has_prose(answer) and notation.last_expression(answer) is None
        if answer is not text and not is_mere_prose:
            return answer
    if answers.marked(text) is not None or statements.OTHER_THAN.search(text[-200:]):
        return found[0]
    last = notation.last_expression(statements.before_variable(text) or text)
    if last is None:
        return quantities.last_spelled(text) or found[0]
    unit = re.match(r"\s*([A-Za-z]+)", text.rpartition(last)[2])
    return f"{last} {unit[1]}" if unit and quantities.measure(unit[1]) else last


_WHOLE = (
    *(quantities.number, quantities.date, quantities.clock_time, quantities.ratio, quantities.numeral),
    *(notation.assignments, notation.pieces),
)
"""What reads an answer as a whole, so that no part of it is taken for the answer."""


def partly_read(golds: Sequence[str]) -> list[str | None]:
    """What of each answer is compared, None where all of it is; "" where only the same text counts."""
    parts: list[str | None] = []
    jobs: dict[int, Job] = {}
    for i, gold in enumerate(map(notation.symbolic, golds)):
        is_whole = any(read(gold) for read in _WHOLE) or _is_wordy(gold)
        is_whole = is_whole or _ATOMS.fullmatch(notation.words(gold)) is not None
        is_whole = is_whole or choices.choice_of(gold, {}) is not None or len(gold) > notation.LONGEST
        parts.append(notation.last_expression(gold) if not is_whole and notation.has_prose(gold) else None)
        if not is_whole and parts[i] is None:
            jobs[i] = (notation.expression(gold),) * 2
    for i, is_formula in zip(
        jobs, checks("curro.reward.math_check").scores(list(jobs.values())), strict=True
    ):
        if is_formula == 0:
            parts[i] = ""
    return parts


_WORDY = re.compile(r"[^\W\d_]+(?:[\s,.'/-]+[^\W\d_]+)*")
_REASONED = re.compile(r"(yes|no|true|false)\s*(?:[,;:.(]?\s*(?:because|since|as)\b|[,;:.(](?=\D*\Z))")
"""An answer that goes on with a reason: "Yes, because 3 divides 9", "No. It is odd."."""
_LONG_WORD = re.compile(r"[^\W\d_]{4}|\b(?:yes|no|odd|north|south|east|west)\b")


@dataclass(frozen=True)
class _Pair:
    """A row's answer and a completion's, with what several kinds read in them."""

    gold: str
    answer: str
    asks_percent: bool

    def both(self, read: Callable[[str], _T]) -> tuple[_T, _T]:
        return read(self.gold), read(self.answer)

    @cached_property
    def words(self) -> tuple[str, str]:
        return self.both(notation.words)

    @cached_property
    def formulas(self) -> tuple[str, str]:
        return self.both(notation.expression)

    @cached_property
    def numbers(self) -> tuple[quantities.Number | None, quantities.Number | None]:
        expected = quantities.number(self.gold)
        return expected, quantities.number(self.answer, like=expected)


def _compare(pair: _Pair, *, again: bool = True) -> Verdict | Job:
    """What the first kind says to which the two answers belong; else they are formulas."""
    for kind in _KINDS:
        verdict = kind(pair)
        if verdict is not None:
            return verdict
    gold, answer = pair.gold, pair.answer
    if again and not statements.CONDITION.search(gold) and (stated := statements.without_place(answer)):
        return _compare(replace(pair, answer=stated))
    if again and notation.has_prose(answer) and not pair.numbers[1]:
        last = notation.last_expression(answer)
        if last is None and pair.numbers[0] and not re.search(r"[=\\]", answer):
            return 0.0
        return _compare(replace(pair, answer=last or answer), again=False)
    if not pair.numbers[0] and notation.has_prose(gold):
        part = notation.last_expression(gold)
        if part and statements.CONDITION.search(gold.replace(part, " ")):
            return Unscored(f"of the answer {gold!r:.60} only {part!r:.30} is read, which is not all of it")
        gold = part or gold
    wanted, said = (
        str(number.value) if number and not re.search(r"\d", text) else notation.expression(text)
        for text, number in zip((gold, answer), pair.numbers, strict=True)
    )
    return wanted, said


def _texts(pair: _Pair) -> float | None:
    wanted, said = pair.words
    if wanted == said:
        return float(wanted != "") if not _has_both_cases(pair.gold) else None
    return 0.0 if len(pair.answer) > notation.LONGEST or not said else None


def _pieces(pair: _Pair) -> float | Job | Unscored | None:
    """Functions in pieces: with the same conditions their values are compared."""
    gold, answer = pair.both(notation.pieces)
    if gold and answer and gold.keys() == answer.keys():
        values = [notation.expression(", ".join(map(piece.__getitem__, gold))) for piece in (gold, answer)]
        return f"({values[0]})", f"({values[1]})"
    if not (gold or answer):
        return None
    if not (gold and answer) and not (notation.has_prose(pair.gold) and notation.has_prose(pair.answer)):
        return 0.0
    return Unscored(
        f"the pieces of the answer {pair.gold!r:.60} have other conditions in {pair.answer!r:.60}"
    )


def _opposites(pair: _Pair) -> float | None:
    """A rise is no fall: 25% increase, 25% decrease."""
    return 0.0 if statements.are_opposite(*pair.words) else None


def _has_both_cases(text: str) -> bool:
    """Whether a letter stands for two things, as R and r."""
    letters = set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", text))
    return any(letter.lower() in letters for letter in letters if letter.isupper())


def _phrases(pair: _Pair) -> float | Unscored | None:
    """Words, where an answer may go on with a reason, or be the end of a sentence."""
    if not _is_wordy(pair.gold) or pair.numbers[0]:
        return None
    wanted, said = pair.words
    reasoned = _REASONED.match(wanted)
    wanted = reasoned[1] if reasoned else wanted
    items = [sorted(re.split(r"\s*,\s*(?:and\s)?\s*|\s+and\s+", text)) for text in pair.words]
    if items[0] == items[1]:
        return Unscored(f"the order of the words in the answer {pair.gold!r:.60} may count")
    if re.fullmatch(re.escape(wanted) + r"(?:,(?! (?:because|since|as)\b)(?: [^\s,.]+){1,2})+", said) and (
        wanted not in ("yes", "no", "true", "false")
    ):
        return Unscored(f"{pair.answer!r:.60} may be more than one answer, or {pair.gold!r:.60} more exactly")
    begins = re.match(re.escape(wanted) + r"\s*(?:[,;:.!(]|because\b|since\b|\Z)", said.replace("*", ""))
    return float(begins is not None or notation.ends_with(pair.answer, wanted))


def _dates(pair: _Pair) -> float | None:
    """Dates; one in digits is no sum or quotient: 2024-01-02 is not 2021."""
    wanted, said = pair.both(quantities.date)
    if wanted and said:
        return float(quantities.same_dates(wanted, said))
    is_number = pair.numbers[0] and said and not re.search("[a-z]", pair.words[1])
    return 0.0 if wanted or is_number else None


def _numerals(pair: _Pair) -> float | None:
    """Numerals with a base; many rows leave it to the question."""
    wanted, said = pair.both(quantities.numeral)
    if wanted and said:
        return float(wanted == said)
    if wanted:
        return float(wanted[0] == pair.words[1].upper())
    if said:
        expected = pair.numbers[0]
        is_value = expected is not None and expected.value == _digits_value(*said)
        return float(is_value or said[0] == pair.words[0].upper())
    return None


def _congruences(pair: _Pair) -> float | None:
    if not re.search(r"\\p?mod|\bmod\b|\\equiv", notation.as_latex(pair.gold)):
        return None
    first, second = pair.both(_congruence)
    return float(first == second)


def _congruence(text: str) -> str | tuple[int, str]:
    text = re.sub(r"\\(?:p|b)?mod(?![a-z])", "mod", notation.as_latex(text).replace("\\equiv", "="))
    text = re.sub(r"\A[a-z]=", "", re.sub(r"[\s{}()$\\]", "", notation.unwrapped(text)))
    residue = _RESIDUE.fullmatch(text)
    return (int(residue[1]) % int(residue[2]), residue[2]) if residue else text


_RESIDUE = re.compile(r"(-?\d{1,9})mod([1-9]\d{0,8})")


def _substances(pair: _Pair) -> float | None:
    return 0.0 if _ATOMS.fullmatch(pair.words[0]) else None


def _figures(pair: _Pair) -> float | None:
    """An angle, triangle or segment by its points, which are no product: the angle ABC is CBA and not ACB."""
    first, second = pair.both(lambda text: _FIGURE.fullmatch(notation.unwrapped(text)))
    if not first or not second:
        return None
    turned = second[2] if "arrow" in second[1] else second[2][::-1]
    is_same = first[2] in (second[2], turned) or (
        first[1] == "triangle" and sorted(first[2]) == sorted(second[2])
    )
    return float(first[1] == second[1] and is_same)


_FIGURE = re.compile(r"\\(angle|triangle|overline|overrightarrow)\s*\{?\s*([A-Z]{2,4})\s*\}?")


def _times(pair: _Pair) -> float | None:
    wanted, said = pair.both(quantities.clock_time)
    return float(quantities.same_times(wanted, said)) if wanted and said else None


def _ratios(pair: _Pair) -> float | Job | None:
    wanted, said = pair.both(quantities.ratio)
    if wanted and (said or len(wanted) > 2):
        return float(wanted == said)
    terms = [text.split(":") for text in pair.formulas if _RATIO.fullmatch(text)]
    if len(terms) < 2 or any(pair.both(notation.has_prose)):
        return None
    gold, answer = (", ".join(rf"\frac{{{term}}}{{{part[0]}}}" for term in part[1:]) for part in terms)
    return (f"({gold})", f"({answer})") if len(terms[0]) == len(terms[1]) else 0.0


_RATIO = re.compile(r"(?!.*\\(?:in|mid)(?![a-z]))[^:<>=,;|()]*\d[^:<>=,;|()]*(?::[^:<>=,;|()]+)+")


def _numbers(pair: _Pair) -> float | Job | None:
    expected, value = pair.numbers
    if expected and value:
        return float(quantities.same_numbers(expected, value, asks_percent=pair.asks_percent))
    plain = notation.STYLED.sub(r" \1 ", pair.answer)
    stated = [quantities.number(part, like=expected) for part in re.split(r",?\s*\bor\b", plain)]
    if expected and len(stated) > 1 and all(stated):  # 0.25, or 25%
        return float(all(quantities.same_numbers(expected, part) for part in stated if part))
    if expected and (
        statements.OTHER_THAN.search(pair.answer[-200:]) or statements.BOUND.search(pair.answer)
    ):
        return 0.0
    for i, degrees in enumerate(pair.numbers):
        other = pair.formulas[1 - i]
        if degrees and degrees.unit in ("degree", "degrees", "deg") and "\\pi" in other:
            return rf"\frac{{{degrees.value}\pi}}{{180}}", other
    return None


def _measures(pair: _Pair) -> float | Job | None:
    r"""Formulas with units: 2\pi m is 200\pi cm, and not 2\pi s."""
    first, second = pair.both(lambda text: _MEASURE.fullmatch(notation.unwrapped(text)))
    wanted, said = (quantities.measure(text["unit"]) if text else None for text in (first, second))
    if not (first and second and wanted and said):
        return None
    size = wanted[1] / said[1]
    gold, answer = (notation.expression(match["formula"]) for match in (first, second))
    gold = rf"\frac{{{size.numerator}}}{{{size.denominator}}}\left({gold}\right)"
    return (gold, answer) if wanted[0] == said[0] else 0.0


_MEASURE = re.compile(
    r"(?P<formula>.*(?:\\pi|[\d)}]))(?:\s|~|\\[,;: ])*"
    r"(?P<unit>(?:\\(?:text|mathrm|rm)\s*\{[^{}]+\}|(?<=\s)[A-Za-z]{2,})(?:\s*\^\s*\{?\s*[1-4]\s*\}?)?)",
    re.DOTALL,
)


def _pairs_of_ends(pair: _Pair) -> Unscored | None:
    """[1, 2] is a list for some rows and an interval for others: 1, 2 may be right."""
    ends = re.fullmatch(r"\[([^,;\[\]()]+),([^,;\[\]()]+)\]", notation.unwrapped(pair.gold))
    items = re.split(r",|\band\b|\bor\b", notation.unwrapped(pair.answer))
    if (
        ends
        and len(items) == 2
        and sorted(map(notation.words, items)) == sorted(map(notation.words, ends.groups()))
    ):
        return Unscored(
            f"the answer {pair.gold!r:.60} may be a list or an interval, and {pair.answer!r:.60} a list"
        )
    return None


def _relations(pair: _Pair) -> float | None:
    """What math-verify would read as its last term: a divisor, a residue; and a set for a tuple."""
    gold, answer = pair.formulas
    if re.search(r"\\(?:n?mid|equiv|to)(?![a-z])", answer) and not re.search(r"\\|[|]", gold + answer[:2]):
        return 0.0
    brackets = {text[0] for text in (gold, answer) if _LIST.fullmatch(text)}
    return 0.0 if len(brackets) == 2 else None


_LIST = re.compile(r"(?:\(|\\\{)[^(){},]+(?:,[^(){},]+)+(?:\)|\\\})")


def _assignments(pair: _Pair) -> Job | None:
    gold, answer = pair.both(notation.assignments)
    if gold and answer:
        if gold.keys() != answer.keys():
            return None
        wanted, said = (f"({', '.join(map(values.__getitem__, gold))})" for values in (gold, answer))
        return notation.expression(wanted), notation.expression(said)
    named = gold or answer
    if not named:
        return None
    other = notation.unwrapped(pair.answer if gold else pair.gold)
    other = re.sub(r"\A\([^()=]*\)\s*=\s*", "", other)
    if gold and not other.startswith(("(", "[")) and other.count(",") == len(named) - 1:
        other = f"({other})"
    if not other.startswith("("):
        return None
    names = sorted(named) if answer or named.keys() <= {"x", "y", "z"} else list(named)
    wanted, said = (
        notation.expression(f"({', '.join(map(named.__getitem__, names))})"),
        notation.expression(other),
    )
    return (wanted, said) if gold else (said, wanted)


def _columns(pair: _Pair) -> Job | None:
    """A column of two that is written like a binomial coefficient, where the other answer is a matrix."""
    gold, answer = (_BINOMIAL.sub(r"\\begin{pmatrix}\1\\\\\2\\end{pmatrix}", text) for text in pair.formulas)
    return (gold, answer) if sum("matrix" in text for text in pair.formulas) == 1 else None


_BINOMIAL = re.compile(r"\A\\[dt]?binom\s*\{([^{}]*)\}\s*\{([^{}]*)\}\Z")


def _vectors(pair: _Pair) -> Job | None:
    r"""2\hat{i} - 3\hat{j} is (2, -3)."""
    texts = [notation.unwrapped(text) for text in (pair.gold, pair.answer)]
    sums = [_UNIT_VECTOR.sub(r"@\1", re.sub(r"\s|(?<!\\)\\[,;: ]", "", text)) for text in texts]
    is_sum = [_VECTOR.fullmatch(text) is not None for text in sums]
    others = [text for text, is_one in zip(texts, is_sum, strict=True) if not is_one]
    if len(others) == 2 or not all(re.search(",|matrix", text) for text in others):
        return None
    names = "ijk" if "@k" in "".join(sums) or any(len(re.findall(r",|\\\\", t)) == 2 for t in texts) else "ij"
    gold, answer = (_components(sums[i], names) if is_sum[i] else pair.formulas[i] for i in (0, 1))
    return gold, answer


def _components(text: str, names: str) -> str:
    terms = {name: f"{sign}{size or 1}" for sign, size, name in _TERM.findall(text)}
    return f"({', '.join(terms.get(name, '0') for name in names)})"


_UNIT_VECTOR = re.compile(
    r"\\(?:hat|vec|mathbf|boldsymbol)\{(?:\\math(?:bf|rm)\{)?\\?([ijk])(?:math(?![a-z]))?\}{1,2}"
)
_TERM = re.compile(r"([+-]?)([^+\-@]*)@([ijk])")
_VECTOR = re.compile(rf"(?:[a-zA-Z]=)?(?:{_TERM.pattern})+")


def _roots(pair: _Pair) -> Job | None:
    """x_1 = 2, x_2 = 3 is x = 2 or x = 3."""
    names = [set(_ROOT.findall(text)) for text in pair.formulas]
    letters = {name for found in names for name, _ in found}
    if len(letters) != 1 or sorted(any(index for _, index in found) for found in names) != [False, True]:
        return None
    gold, answer = (_ROOT.sub("", text) for text in pair.formulas)
    return (gold, answer) if all(names) and "=" not in gold + answer else None


_ROOT = re.compile(r"(?<![A-Za-z\\])([a-z])(_\{?\d\}?)?\s*=")


def _bound(pair: _Pair) -> Job | None:
    """f(x) = x is f(y) = y, and 2k + 1 for any integer k is 2n + 1."""
    laws = pair.both(lambda text: _LAW.fullmatch(notation.unwrapped(text)))
    gold, answer = pair.formulas
    letters = [set(_VARIABLE.findall(text)) for text in pair.formulas]
    only = letters[0] - letters[1], letters[1] - letters[0]
    named = {law[1] for law in laws if law} if all(laws) else set(pair.both(notation.parameter))
    if not (len(only[0]) == len(only[1]) == 1 and named & (only[0] | only[1])):
        return None
    return gold, re.sub(rf"(?<![A-Za-z\\]){only[1].pop()}(?![A-Za-z])", only[0].pop(), answer)


def _functions(pair: _Pair) -> float | Job | None:
    """y = 2x is f(x) = 2x, and dy/dx = 2x is y' = 2x."""
    first, second = pair.both(lambda text: _FUNCTION.fullmatch(notation.unwrapped(text)))
    if not first or not second:
        return None
    if bool(first["derived"]) != bool(second["derived"]):
        return 0.0
    if not first["derived"] and (first["name"] == "y") == (second["name"] == "y"):
        return None
    return notation.expression(first["value"]), notation.expression(second["value"])


_FUNCTION = re.compile(
    r"(?P<name>y|[A-Za-z]\(x\)|(?P<derived>y'(?:\(x\))?|[A-Za-z]'\(x\)|dy/dx"
    r"|\\[dt]?frac\{(?:d(?:\{\})?|\\mathrm\{d\})y\}\{(?:d(?:\{\})?|\\mathrm\{d\})x\}))\s*=\s*(?P<value>[^=<>,]+)"
)

_VARIABLE = re.compile(r"(?<![A-Za-z\\])[a-z](?![A-Za-z])")


_KINDS: tuple[Callable[[_Pair], Verdict | Job], ...] = (
    *(_texts, _pieces, _opposites, _phrases, _dates, _numerals, _congruences),
    *(_substances, _figures, _times, _ratios, _numbers),
    *(_measures, _pairs_of_ends, _relations, _assignments, _vectors, _columns, _roots, _bound, _functions),
)
"""What two answers may be, in the order in which it is asked. None from one: they are something else."""


_LAW = re.compile(r"[A-Za-z]\(([a-z])\)\s*=[^=,]+")


def _digits_value(digits: str, base: str) -> int | None:
    try:
        return int(digits, int(base))
    except ValueError:  # a base above 36, or digits that it lacks
        return None


_ATOMS = re.compile(r"(?=.*[A-Z])[A-Za-z0-9()]+")


def _is_wordy(gold: str) -> bool:
    """Whether an answer is words, which math-verify would read as products of letters."""
    wanted = notation.words(gold)
    if _REASONED.match(wanted):
        return True
    return _WORDY.fullmatch(wanted) is not None and _LONG_WORD.search(wanted) is not None


def _asks_percent(row: Row) -> bool:
    """Whether the row's prompt, if it is a text, speaks of percents."""
    prompt = last_message(row)
    return not prompt or re.search(r"%|per\s?cent|百分", prompt, re.IGNORECASE) is not None


def _any(scores: Sequence[Score]) -> Score:
    """1.0 if one is right; else None if one was not checked in time."""
    if 1.0 in scores:
        return 1.0
    return None if None in scores else 0.0

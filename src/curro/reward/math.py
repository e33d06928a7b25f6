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
from collections.abc import Sequence
from dataclasses import dataclass

from curro.data.raw import Row
from curro.reward import answers, choices, notation, quantities
from curro.reward.checks import checks
from curro.reward.reward import Score, Verdict

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
        text = answers.spoken(completion, row, opened=self.opened)
        if self.boxed:
            boxed = answers.last_boxed(text)
            text = "" if boxed is None else f"\\boxed{{{boxed}}}"
        return judge(text, golds, row)


def judge(text: str, golds: Sequence[str], row: Row) -> float | list[Job]:
    """The score of a text outside of thoughts, or the jobs for math-verify of which one must be right."""
    found = [answer for answer in answers.candidates(text) if answer]
    if not text.strip() or (not found and answers.marked(text) is not None):
        return 0.0
    found = found or [text]
    options = choices.options_of(row)
    jobs: list[Job] = []
    for gold in golds:
        choice = choices.choice_of(gold, options)
        result: float | Job | None = None
        if choice is not None:
            result = choices.judge(found, text if found == [text] else "", choice)
            gold = choice.text or gold
        if result is None:
            result = _compare(_readable(found, text, gold), gold, asks_percent=_asks_percent(row))
        if result == 1.0:
            return 1.0
        if isinstance(result, tuple):
            jobs.append(result)
    return jobs or 0.0


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
    if answers.marked(text) is not None or _OTHER_THAN.search(text[-200:]):
        return found[0]
    return notation.last_expression(text) or found[0]


_WHOLE = (
    *(quantities.number, quantities.date, quantities.clock_time, quantities.ratio, quantities.numeral),
    notation.assignments,
)
"""What reads an answer as a whole, so that no part of it is taken for the answer."""


def partly_read(golds: Sequence[str]) -> list[str | None]:
    """What of each answer is compared, None where all of it is; "" where only the same text counts."""
    parts: list[str | None] = []
    jobs: dict[int, Job] = {}
    for i, gold in enumerate(golds):
        is_whole = any(read(gold) for read in _WHOLE) or _is_wordy(gold)
        is_whole = is_whole or _ATOMS.fullmatch(notation.words(gold)) is not None
        if is_whole or choices.choice_of(gold, {}) is not None or len(gold) > notation.LONGEST:
            parts.append(None)
        elif notation.has_prose(gold):
            parts.append(notation.last_expression(gold) or "")
        else:
            parts.append(None)
            jobs[i] = (notation.expression(gold),) * 2
    for i, is_formula in zip(
        jobs, checks("curro.reward.math_check").scores(list(jobs.values())), strict=True
    ):
        if is_formula == 0:
            parts[i] = ""
    return parts


_WORDY = re.compile(r"[^\W\d_]+(?:[\s,.'/-]+[^\W\d_]+)*")
_LONG_WORD = re.compile(r"[^\W\d_]{4}|\b(?:yes|no|odd|north|south|east|west)\b")


def _compare(answer: str, gold: str, *, asks_percent: bool, again: bool = True) -> float | Job:
    said, wanted = notation.words(answer), notation.words(gold)
    if said == wanted:
        return float(wanted != "")
    if len(answer) > notation.LONGEST or not said:
        return 0.0
    expected = quantities.number(gold)
    if _is_wordy(gold) and not expected:
        begins = re.match(re.escape(wanted) + r"\s*(?:[,;:.(]|because\b|since\b)", said.replace("*", ""))
        return float(begins is not None or notation.ends_with(answer, gold))
    dates = quantities.date(gold), quantities.date(answer)
    if dates[0]:
        return float(dates[1] is not None and quantities.same_dates(dates[0], dates[1]))
    numerals = quantities.numeral(gold), quantities.numeral(answer)
    if numerals[0] and numerals[1]:
        return float(numerals[0] == numerals[1])
    if numerals[0] or numerals[1]:  # many rows leave the base to the question
        digits, base = numerals[0] or numerals[1] or ("", "")
        is_value = (
            numerals[1] is not None and expected is not None and expected.value == _digits_value(digits, base)
        )
        return float(digits == (said if numerals[0] else wanted).upper() or is_value)
    if re.search(r"\\p?mod|\bmod\b|\\equiv", notation.as_latex(gold)):
        return float(_congruence(gold) == _congruence(answer))
    if _ATOMS.fullmatch(wanted):
        return 0.0
    times = quantities.clock_time(gold), quantities.clock_time(answer)
    if times[0] and times[1]:
        return float(quantities.same_times(times[0], times[1]))
    ratios = quantities.ratio(gold), quantities.ratio(answer)
    if ratios[0] and (ratios[1] or len(ratios[0]) > 2):
        return float(ratios[0] == ratios[1])
    value = quantities.number(answer, like=expected)
    if expected and value:
        return float(quantities.same_numbers(expected, value, asks_percent=asks_percent))
    if expected and (value is None and (_OTHER_THAN.search(answer[-200:]) or _BOUND.match(answer))):
        return 0.0
    for degrees, radians in ((expected, answer), (value, gold)):
        if degrees and degrees.unit == "degree" and "\\pi" in notation.as_latex(radians):
            return rf"\frac{{{degrees.value}\pi}}{{180}}", notation.expression(radians)
    laws = _LAW.fullmatch(notation.unwrapped(gold)), _LAW.fullmatch(notation.unwrapped(answer))
    if laws[0] and laws[1]:  # f(x) = x is f(y) = y
        answer = re.sub(rf"(?<![A-Za-z\\]){laws[1][1]}(?![A-Za-z])", laws[0][1], answer)
    values = notation.assignments(gold), notation.assignments(answer)
    if any(values) and _assigned(gold, answer, values) is not None:
        gold, answer = _assigned(gold, answer, values) or ("", "")
        return notation.expression(gold), notation.expression(answer)
    if again and notation.has_prose(answer) and not value:
        answer = notation.last_expression(answer) or answer
        return _compare(answer, gold, asks_percent=asks_percent, again=False)
    if not expected and notation.has_prose(gold):
        gold = notation.last_expression(gold) or gold
    return notation.expression(gold), notation.expression(answer)


_LAW = re.compile(r"[A-Za-z]\(([a-z])\)\s*=[^=,]+")


def _digits_value(digits: str, base: str) -> int | None:
    try:
        return int(digits, int(base))
    except ValueError:  # a base above 36, or digits that it lacks
        return None


_OTHER_THAN = re.compile(r"(?:\bnot|n't|\bcannot)\s*\}?(?: [a-z]+)?\s+\S*\d\S*\Z", re.IGNORECASE)
"""Says that a number is not the answer."""

_BOUND = re.compile(
    r"\s*(?:\\[lg](?:eq?|t)|<(?!<)|>(?!>)|[\u2264\u2265])"
    r"|\s*(?:\\text\{\s*)?(?:at (?:least|most)|(?:more|less) than)",
    re.IGNORECASE,
)

_ATOMS = re.compile(r"(?=.*[A-Z])[A-Za-z0-9()]+")


def _congruence(text: str) -> str:
    text = re.sub(r"\\(?:p|b)?mod\b", "mod", notation.as_latex(text).replace("\\equiv", "="))
    return re.sub(r"[\s{}()$\\]", "", notation.unwrapped(text))


def _assigned(
    gold: str, answer: str, values: tuple[dict[str, str] | None, dict[str, str] | None]
) -> tuple[str, str] | None:
    """Two tuples of values that are to be equal, where at least one of the texts assigns values to names."""
    if values[0] and values[1]:
        names = list(values[0])
        if set(names) != set(values[1]):
            return None
        return f"({', '.join(values[0].values())})", f"({', '.join(values[1][name] for name in names)})"
    named = values[0] or values[1] or {}
    other = notation.unwrapped(answer if values[0] else gold)
    other = re.sub(r"\A\([^()=]*\)\s*=\s*", "", other.replace(r"\left", "").replace(r"\right", ""))
    if values[0] and not other.startswith(("(", "[")) and other.count(",") == len(named) - 1:
        other = f"({other})"
    if not other.startswith("("):
        return None
    assigned = f"({', '.join(named[name] for name in (named if values[0] else sorted(named)))})"
    return (assigned, other) if values[0] else (other, assigned)


def _is_wordy(gold: str) -> bool:
    """Whether an answer is words, which math-verify would read as products of letters."""
    wanted = notation.words(gold)
    return _WORDY.fullmatch(wanted) is not None and _LONG_WORD.search(wanted) is not None


def _asks_percent(row: Row) -> bool:
    """Whether the row's prompt, if it is a text, speaks of percents."""
    prompt = row.get("prompt")
    if isinstance(prompt, list | tuple) and prompt and isinstance(prompt[-1], dict):
        prompt = prompt[-1].get("content")
    return (
        not isinstance(prompt, str) or not prompt or re.search(r"%|per\s?cent|百分", prompt, re.I) is not None
    )


def _any(scores: Sequence[Score]) -> Score:
    """1.0 if one is right; else None if one was not checked in time."""
    if 1.0 in scores:
        return 1.0
    return None if None in scores else 0.0

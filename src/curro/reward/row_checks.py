r"""The check before a run: does the reward know the forms in which this data has its answers?

A form that a reward does not know scores 0 for every completion of a prompt, and a test that tests nothing
scores 1. Both look like a prompt that is too hard or too easy, and no curriculum can tell. So a sample of the
rows is scored with texts whose score is known: each row's own answer as models write it, an empty completion,
another row's answer, and the answer inside a thought that was cut.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curro.core.errors import ConfigError, RewardError
from curro.core.identity import ANSWER, answer_of, first_column
from curro.core.loading import provider
from curro.core.registry import OUTCOMES, REWARDS
from curro.core.text import readable
from curro.data.raw import Row
from curro.reward.answers import accepted
from curro.reward.literals import read
from curro.reward.notation import words
from curro.reward.resolve import WeightedReward, outcome_reward
from curro.reward.reward import Reward, Unscored, Verdict, last_message

SAMPLE = 200
MOST_WRONG = 0.01
"""Share of wrong rows from which a run is stopped."""

_MOST_NAMED = 5
_MOST_PROGRAMS = 40
_SOLUTIONS = ("canonical_solution", "reference_solution", "solution", "solutions", "ground_truth_solution")


@dataclass(frozen=True)
class WrongRow:
    """A row that the reward does not fit, and what its score says; `number` counts the rows from 0."""

    number: int
    row: Row
    reason: str

    @property
    def source(self) -> str:
        return _source(self.row)

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        prompt = readable(" ".join(last_message(self.row).split()), 60)
        return (
            f"row {self.number}{source}: {self.reason}; answer {_short(self.row.get('answer'))}, "
            f"prompt {prompt!r}"
        )


@dataclass
class RowReport:
    """What the check found.

    Attributes:
        reward: the name of the reward that was checked.
        rows: of the data set.
        checked: the number of rows that were scored, by source.
        unscored: of them those that the reward gave no score, by source.
        wrong: the rows that do not fit.
        forms: by form, the rows in which the own answer written so scores 0.
        notes: sentences about what may be wrong, or was not looked at.
        verifies: whether the reward tells a row's own answer from others.
    """

    reward: str
    rows: int
    checked: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)
    wrong: list[WrongRow] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    verifies: bool = True

    @property
    def stops(self) -> bool:
        """Whether more than 1% of the checked rows are wrong."""
        return len(self.wrong) > MOST_WRONG * self.checked.total()

    @property
    def lines(self) -> list[str]:
        """The report for people: counts by source, the first wrong rows, and notes."""
        lines = [
            f"reward {self.reward!r} on {self.checked.total()} of {self.rows} rows: "
            f"{len(self.wrong)} do not fit"
        ]
        if self.unscored:
            lines[0] += f", {self.unscored.total()} cannot be scored"
        wrong = Counter(row.source for row in self.wrong)
        if len(self.checked) > 1:
            lines += [
                f"  {source or 'no source'}: {wrong[source]} of {n} wrong, {self.unscored[source]} unscored"
                for source, n in sorted(self.checked.items())
                if wrong[source] or self.unscored[source]
            ]
        lines += [f"  {row}" for row in self.wrong[:_MOST_NAMED]]
        if len(self.wrong) > _MOST_NAMED:
            lines.append(f"  and {len(self.wrong) - _MOST_NAMED} more")
        lines += [f"  the own answer as {form} scores 0 in {n} rows" for form, n in self.forms.items()]
        return lines + [f"  {note}" for note in self.notes]


VERIFIERS = ("math", "exact", "code", "function-calls")
"""Rewards by their names that score 0 for an answer that is not right."""

OWN_SECONDS = 20.0
"""Seconds after which no more rows are scored by a reward of the user's own, which may ask a model."""


def check_rows(
    rows: Sequence[Row], reward: Reward, sample: int = SAMPLE, seed: int = 0, *, must_run: bool = False
) -> RowReport:
    """Score a sample of rows with texts whose scores are known.

    A row is wrong if none of the forms of its own answer scores, or if an empty completion or a program that
    does nothing does. Another row's answer that scores is a note: two rows may have equal answers. A reward
    of the user's own verifies answers if, in most rows, the row's answer scores more than an empty completion
    and another row's. The other rows are wrong then; without such a majority notes give the numbers alone.

    Args:
        rows: the data set; without a column `answer`, the answers are in one of the usual columns.
        reward: no sum of several that verify the answer (`verifiers` gives its parts).
        sample: rows to check, at most; drawn without replacement. For `code` at most 40, since programs run.
        seed: of the draw.
        must_run: whether a reward of the user's own is called once even if no row has an answer.

    Raises:
        RewardError: a reward of the user's own fails, or no row can be scored.
    """
    reward = outcome_reward(reward)
    name = reward.name.partition(":")[0]
    report = RowReport(reward.name, len(rows))
    if name not in VERIFIERS and (name in REWARDS or provider(reward.name) is not None):
        report.verifies = False
        report.notes.append(
            "rows are not checked: they have a verifier of their own, or no answer is verified"
        )
        return report
    is_known = name in VERIFIERS
    number = min(sample, _MOST_PROGRAMS) if name == "code" else sample
    drawn = sorted(np.random.default_rng(seed).permutation(len(rows))[:number].tolist())
    picked = {i: dict(rows[i]) for place in drawn for i in (place, (place + 1) % len(rows))}
    column = first_column([row for row in picked.values() if "answer" not in row], ANSWER)
    for row in picked.values():
        row.setdefault("answer", answer_of(row, column))
    example = getattr(reward.verify, "example", None)  # of a verifier that knows how its answers are written
    texts = {i: _texts(name, picked[i], picked[(i + 1) % len(rows)], example) for i in drawn}
    if not is_known:  # without answers, a first call says no more than whether the reward can be called
        drawn = [i for i in drawn if texts[i][0]] or drawn[: int(must_run)]
    as_good: Counter[str] = Counter()
    suspects: list[WrongRow] = []
    verified = 0
    scores_by_row = _scores(reward, [(picked[i], texts[i]) for i in drawn], must_end=is_known)
    for i, (of_own, of_others) in zip(drawn, scores_by_row, strict=False):
        source = _source(picked[i])
        report.checked[source] += 1
        blamed = [v.reason for v in (of_own | of_others).values() if isinstance(v, Unscored) and v.is_row]
        own, others = _scored(of_own), _scored(of_others)
        if not (own or others or blamed):
            report.unscored[source] += 1
            continue
        best = max(own.values(), default=None)
        matched = [form for form, score in others.items() if best is not None and score >= best]
        verified += best is not None and not {_EMPTY, _OTHER} & set(matched)
        silent = 0.0 if is_known else others.get(_EMPTY)
        reasons = [*blamed, *([] if silent is None else _reasons(best, others, silent))]
        if reasons:
            suspects.append(WrongRow(i, picked[i], reasons[0]))
            continue
        as_good.update(matched)
        if is_known and "boxed=true" not in reward.name:
            report.forms.update(form for form, score in own.items() if score == 0.0)
    report.verifies = is_known or 2 * verified > report.checked.total()
    if report.verifies:
        report.wrong = suspects
    else:
        as_good[_EMPTY] += len(suspects)
    report.notes += [f"{form} scores as much as the answer in {n} rows" for form, n in as_good.items() if n]
    if name == "math":
        report.notes += _partly_read({i: gold for i in drawn for gold in accepted(picked[i])[:1]})
    if report.checked.total() < len(drawn):
        report.notes.append(f"{OWN_SECONDS:g} seconds were over after {report.checked.total()} rows")
    if name == "code" and not any(own for own, _ in texts.values()):
        report.notes.append("no row has a reference solution, so only programs that do nothing were scored")
    return report


def _scored(verdicts: Mapping[str, Verdict]) -> dict[str, float]:
    return {form: verdict for form, verdict in verdicts.items() if isinstance(verdict, float)}


def _source(row: Row) -> str:
    return str(row.get("source") or row.get("data_source") or "")


def _reasons(best: float | None, others: Mapping[str, float], silent: float) -> Iterator[str]:
    """Why the row is wrong, if it is.

    Args:
        silent: what a completion without an answer scores, by the reward's own measure.
    """
    if best is not None and best <= silent:
        yield f"its own answer scores {best:g}"
    for form in (_EMPTY, _NOTHING):
        if others.get(form, silent) > silent:
            yield f"{form} scores {others[form]:g}"


def _partly_read(golds: Mapping[int, str]) -> list[str]:
    """A note of rows whose answer `math` does not read as a whole, though it scores when it is repeated."""
    from curro.reward.math import partly_read  # as late as the reward itself

    parts = {
        i: part for i, part in zip(golds, partly_read(list(golds.values())), strict=True) if part is not None
    }
    if not parts:
        return []
    i, part = next(iter(parts.items()))
    what = f"only {part!r} counts" if part else "only the same text is right"
    example = f"row {i}: of {_short(golds[i])} {what}"
    return [f"math does not read the whole answer in {len(parts)} rows, such as {example}"]


def verifiers(reward: Reward) -> list[Reward]:
    """The rewards to check: each part of a sum that verifies the answer, or the reward itself."""
    outcome = outcome_reward(reward)
    return [part for _, part in outcome.parts] if isinstance(outcome, WeightedReward) else [outcome]


def warn_of_rows(rows: Sequence[Row], reward: Reward) -> None:
    """Warn once of rows that do not fit, in a trainer that has no other place to say it."""
    for part in filter(_is_known, verifiers(reward)):
        report = check_rows(rows, part)
        if report.stops:
            warnings.warn("\n".join(report.lines), RuntimeWarning, stacklevel=2)


def _is_known(reward: Reward) -> bool:
    return reward.name.partition(":")[0] in VERIFIERS


def check_before_run(
    rows: Sequence[Row],
    reward: Reward,
    say: Callable[[str], object],
    skip: str = "--no-check",
    *,
    must_run: bool = False,
) -> None:
    """Check the rows, say what does not fit, and refuse to go on if that are more than 1%.

    What a reward of the user's own means by its numbers is not known, so it never stops a run. A sentence
    says what does not fit if it verifies answers, by its scores or by its name.

    Args:
        rows, reward: as `check_rows` takes them.
        say: called with each line of the report, if there is something to say.
        skip: the option that leaves the check out.
        must_run: whether an error of the user's own reward ends the run here, as it would later.

    Raises:
        ConfigError: more than 1% of the checked rows are wrong.
        RewardError: the user's own reward fails, and it must run.
    """
    for part in verifiers(reward):
        is_known = _is_known(part)
        try:
            report = check_rows(rows, part, must_run=must_run)
        except RewardError as error:
            if is_known or must_run:
                raise
            say(f"{error} (in the check before the run; {skip} leaves it out)")
            continue
        if is_known and report.stops:
            raise ConfigError(
                f"the reward {report.reward!r} does not fit {len(report.wrong)} of {report.checked.total()} "
                f"rows, such as {report.wrong[0]}: choose another reward, mend the rows (curro doctor DATA "
                f"--reward REWARD names them), or train on them as they are with {skip}"
            )
        if is_known and (report.wrong or report.unscored or report.forms or report.notes):
            for line in report.lines:
                say(line)
        is_verifier = report.verifies or part.name.rpartition(":")[2] in OUTCOMES
        if not is_known and (report.wrong or (is_verifier and report.notes)):
            wrong = [f"does not fit {len(report.wrong)} rows, such as {row}" for row in report.wrong[:1]]
            problems = "; ".join([*wrong, *report.notes])
            say(
                f"reward {part.name!r} on {report.checked.total()} rows: {problems} ({skip} skips this check)"
            )


_EMPTY, _NOTHING, _OTHER = "an empty completion", "a program that does nothing", "another row's answer"
_CUT = "the answer in a thought that was cut"
Example = Callable[[Row], str | None] | None
"""Writes a row's own answer as a completion; None for a row without one."""


def _texts(name: str, row: Row, other: Row, example: Example) -> tuple[dict[str, str], dict[str, str]]:
    """Completions for one row by what they are: its own answer in several forms, and what is no answer."""
    own = _own_texts(name, row, example)
    if name == "code":
        return own, {_EMPTY: "", _NOTHING: "```python\npass\n```"}
    others = {_EMPTY: ""}
    answers, other_answers = ({words(text) for text in accepted(r)} for r in (row, other))
    if own and other_answers and not answers & other_answers:
        others[_OTHER] = next(iter(_own_texts(name, other, example).values()), "")
    if own and example is None:
        others[_CUT] = f"<think>perhaps {list(own.values())[-1]}"
    return own, others


def _own_texts(name: str, row: Row, example: Example) -> dict[str, str]:
    """The row's own answer as models write it."""
    if name == "code":
        solution = _first(next((row[column] for column in _SOLUTIONS if row.get(column)), None))
        if not isinstance(solution, str) or not solution.strip():
            return {}
        return {"its solution": solution if "```" in solution else f"```python\n{solution}\n```"}
    if example is not None:
        text = example(row)
        return {} if text is None else {"a call": text}
    answers = accepted(row) if "answer" in row else []
    if not answers:
        return {}
    texts = {"bare text": answers[0], "<answer>x</answer>": f"<answer>{answers[0]}</answer>"}
    if "\n" not in answers[0]:
        texts["#### x"] = f"#### {answers[0]}"
        texts['"The answer is x."'] = f"The answer is {answers[0]}."
        texts[r"\boxed{x}"] = rf"It is \boxed{{{answers[0]}}}."
    return texts


def _first(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read(value) or value
    return value[0] if isinstance(value, list | tuple) and value else value


def _scores(
    reward: Reward,
    texts_by_row: Sequence[tuple[Row, tuple[dict[str, str], dict[str, str]]]],
    *,
    must_end: bool,
) -> Iterator[tuple[dict[str, Verdict], dict[str, Verdict]]]:
    """The verdicts on each row's texts, by form.

    Args:
        must_end: every row is scored; else the first ones, as many as there is time for.
    """
    facts = {"completion_tokens": 1, "completion_cut": False}
    begun, rows_at_a_time = time.monotonic(), len(texts_by_row) if must_end else 10
    for begin in range(0, len(texts_by_row), max(rows_at_a_time, 1)):
        if not must_end and time.monotonic() - begun > OWN_SECONDS:
            return
        part = texts_by_row[begin : begin + rows_at_a_time]
        jobs = [(text, {**row, **facts}) for row, both in part for texts in both for text in texts.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the report says it with numbers of rows
            verdicts = iter(reward.verdicts([text for text, _ in jobs], [row for _, row in jobs]))
        for _, (own, others) in part:
            yield {form: next(verdicts) for form in own}, {form: next(verdicts) for form in others}


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) <= 60 else text[:60] + "..."

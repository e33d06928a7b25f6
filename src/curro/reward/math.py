"""Mathematical equality of the completion's answer and the row's, by math-verify.

math-verify hands text to SymPy, which can take for ever on a short text (9^9^9^9), and its own time limits
are signals, which only the main thread may use. So it runs in worker processes (`curro.reward.checks`), and
any thread may ask for scores. A text that takes too much processor time or memory there is a wrong answer.
Where a check waits too long for a busy machine, or a batch takes longer than a minute, the answers that are
left are not scored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from curro.data.raw import Row
from curro.reward.checks import checks
from curro.reward.completion import final_answer, last_boxed
from curro.reward.reward import Score

_LONGEST_ANSWER = 1000

_FORMULA = re.compile(r"(?<!\\)\$")
"""A dollar that begins a formula, and is none of money."""


@dataclass(frozen=True)
class Math:
    r"""Right if the completion's answer equals the row's answer mathematically.

    The completion's answer is its last `\boxed{}`, else what follows its last `####`, else the final
    expression that math-verify finds in its last 1,000 characters. An answer of more than 1,000 characters is
    wrong. The row's answer may be a bare expression, LaTeX between dollars, or a worked solution that ends in
    a box or after `####`.

    Source: the library math-verify.

    Args:
        boxed: only an answer in a box counts; a completion without one is wrong.
    """

    boxed: bool = False

    def __call__(self, completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
        """1.0 where the answers are equal, else 0.0; None without an answer, or where the time ran out."""
        jobs: list[tuple[str, str] | None] = []
        scores: list[Score] = []
        for completion, row in zip(completions, rows, strict=True):
            if self.boxed and row["answer"] is not None:
                content = last_boxed(completion)
                completion = "" if content is None else f"\\boxed{{{content}}}"
            score, job = _without_asking(completion, row["answer"])
            scores.append(score)
            jobs.append(job)
        checked = iter(checks("curro.reward.math_check").scores([job for job in jobs if job is not None]))
        return [score if job is None else next(checked) for score, job in zip(scores, jobs, strict=True)]


def _without_asking(completion: str, gold: str | None) -> tuple[Score, tuple[str, str] | None]:
    """The score where the texts decide it; elsewhere the job for math-verify too."""
    if gold is None:
        return None, None
    answer = final_answer(completion)
    if (completion.strip() if answer is None else answer) == (final_answer(gold) or gold.strip()):
        return 1.0, None
    if answer is None:
        return 0.0, (_gold(gold), completion[-_LONGEST_ANSWER:])
    if len(answer) > _LONGEST_ANSWER:
        return 0.0, None
    return 0.0, (_gold(gold), f"\\boxed{{{answer}}}")


def _gold(answer: str) -> str:
    if last_boxed(answer) is None:
        final = final_answer(answer)
        if final is not None or not _FORMULA.search(answer):
            return f"\\boxed{{{(final or answer).strip()}}}"
    return answer

"""Right if the completion's answer is the row's answer, character by character."""

from __future__ import annotations

from collections.abc import Sequence

from curro.reward.final_answer import final_answer
from curro.reward.reward import Row, Score


def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    r"""1.0 where the answers are equal, 0.0 where not, None where the row has no answer.

    The answer of a text is what stands in its last `\boxed{}`, else after its last `####`, else all of it,
    without the white space around it. The row's answer is read in the same way.
    """
    return [
        None if row["answer"] is None else float(_answer(completion) == _answer(row["answer"]))
        for completion, row in zip(completions, rows, strict=True)
    ]


def _answer(text: str) -> str:
    found = final_answer(text)
    return text.strip() if found is None else found

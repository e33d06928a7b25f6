"""The scores of reasoning-gym's own scorers.

Several of its scorers evaluate the answer as Python (countdown, puzzle24, the integrals and polynomials, the
matrices), so all of them run in processes of their own (`curro.reward.checks`), where `eval` reads
literals, arithmetic and elementary functions alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from curro.core.errors import RewardError
from curro.data.raw import Row
from curro.reward.answers import marked, spoken
from curro.reward.checks import checks
from curro.reward.literals import read
from curro.reward.reward import Score, key


def verify(completions: Sequence[str], rows: Sequence[Row]) -> list[Score]:
    r"""The number that reasoning-gym's own scorer gives the completion's answer.

    The answer is read outside of thoughts: between the last `<answer>` tags, else in the last `\boxed{}`,
    else after the last `####`, else it is the whole text without the white space around it. Each row has
    reasoning-gym's `answer` and `metadata` (a dict, or its JSON), whose `source_dataset` names the scorer.

    Source: the library reasoning-gym.

    Returns:
        the numbers, 0 to 1; 0.0 for an answer that takes too much processor time or memory, None
        where the time on the clock was over.

    Raises:
        RewardError: a row's metadata name no data set of reasoning-gym's, or it is not installed.
    """
    jobs = [
        json.dumps(
            {"data_set": _data_set(row), "answer": _answer(text, row), "entry": _entry(row)}, default=str
        )
        for text, row in zip(completions, rows, strict=True)
    ]
    return checks("curro.reward.reasoning_gym_check").scores(jobs)


def source_data_set(row: Row) -> str | None:
    """The reasoning-gym data set that a row comes from, None if it does not say."""
    return _metadata(row).get("source_dataset")


def _data_set(row: Row) -> str:
    name = source_data_set(row)
    if name is None:
        raise RewardError(
            f"the prompt {key(row)} has no metadata with a source_dataset, as reasoning-gym's entries have: "
            "keep the column `metadata`, or choose another reward"
        )
    return name


def _entry(row: Row) -> dict[str, Any]:
    return {**row, "question": row.get("question", row["prompt"]), "metadata": _metadata(row)}


def _metadata(row: Row) -> dict[str, Any]:
    metadata = read(row.get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def _answer(text: str, row: Row) -> str:
    text = spoken(text, row)
    answer = marked(text)
    return text.strip() if answer is None else answer

"""The benchmark suites that `curro evaluate` knows by name: a table, and nothing else.

A name loads the suite's data set from the hub. Number of samples and lengths are defaults of ours where the
papers name none: PSPO and "Online Difficulty Filtering" sample at temperature 0.6 with top-p 0.95, the latter
with at most 8,192 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from curro.core.identity import value_at
from curro.data import DataError, PromptSet
from curro.data.load import raw_rows
from curro.data.raw import RawRow
from curro.training.evaluation.code_suites import READERS

BOXED = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."

PROGRAM = "{problem}\n\nWrite the program in one block of code between lines of three backticks."


@dataclass(frozen=True)
class Suite:
    """A benchmark.

    Attributes:
        data: the id of its data set on the hub, with `:CONFIG` if it has several.
        prompt, answer: its columns; of a suite with a `reader` one that every row has.
        reward: what scores it.
        reader: which of `curro.training.evaluation.code_suites.READERS` reads a row's problem and tests.
        instruction: the prompt, with `{problem}` for the prompt's column.
        samples, max_new_tokens: how many each problem gets, and how long they may be.
    """

    name: str
    data: str
    split: str
    prompt: str
    answer: str
    reward: str = "math"
    reader: str | None = None
    instruction: str = BOXED
    samples: int = 4
    max_new_tokens: int = 8192
    temperature: float = 0.6
    top_p: float = 0.95


_PARTIAL: dict[str, Any] = {
    "reward": "code:partial=true", "instruction": PROGRAM, "max_new_tokens": 4096,
}  # fmt: skip
_LIVE: dict[str, Any] = {
    "split": "train", "prompt": "question_content", "answer": "public_test_cases",
    "reward": "code:seconds=60", "reader": "live-code-bench", "instruction": PROGRAM,
}  # fmt: skip

_TABLE = (
    Suite("AIME24", "HuggingFaceH4/aime_2024", "train", "problem", "answer", samples=16),
    Suite("AIME25", "math-ai/aime25", "test", "problem", "answer", samples=16),
    Suite("AMC23", "math-ai/amc23", "test", "question", "answer", samples=16),
    Suite("MATH-500", "HuggingFaceH4/MATH-500", "test", "problem", "answer"),
    Suite("Minerva", "math-ai/minervamath", "test", "question", "answer"),
    Suite("OlympiadBench", "Hothan/OlympiadBench:OE_TO_maths_en_COMP", "train", "question", "final_answer"),
    Suite("HumanEval", "openai/openai_humaneval", "test", "prompt", "test", reader="human-eval", **_PARTIAL),
    Suite("MBPP", "google-research-datasets/mbpp:sanitized", "test", "prompt", "test_list", reader="mbpp",
          **_PARTIAL),
    Suite("MBPP-full", "google-research-datasets/mbpp:full", "train+validation+test+prompt", "text",
          "test_list", reader="mbpp", **_PARTIAL),
    Suite("LiveCodeBench", "livecodebench/code_generation_lite:test6.jsonl", **_LIVE),
    Suite("LiveCodeBench-v6", "livecodebench/code_generation_lite:test*.jsonl", **_LIVE),
    Suite("BigCodeBench", "bigcode/bigcodebench", "v0.1.4", "complete_prompt", "test", samples=1,
          reward="code:packages=true,seconds=240,memory_mib=8192,processes=64", reader="big-code-bench",
          instruction=PROGRAM, max_new_tokens=4096),
)  # fmt: skip

SUITES = {suite.name: suite for suite in _TABLE}
"""By name."""


def suite_prompts(
    suite: Suite, *, data: str | None = None, limit: int | None = None, chat: bool = True
) -> PromptSet:
    """The problems of a suite, in its own order; a row's key is its number.

    Args:
        suite: what to load.
        data: a file or folder with the suite's own columns, in place of the hub.
        limit: the first so many.
        chat: a prompt is a conversation of one message; else plain text.

    Raises:
        DataError: the data set cannot be loaded, is empty, or lacks a column or an answer.
    """
    source = data or suite.data
    raw_problems = list(islice(raw_rows(source, suite.split, limit), limit))
    if not raw_problems:
        raise DataError(f"{source} is empty: the suite {suite.name} has no problem")
    rows = []
    for number, raw_row in enumerate(raw_problems):
        problem, answer = (value_at(raw_row.row, column) for column in (suite.prompt, suite.answer))
        for column, value in ((suite.prompt, problem), (suite.answer, answer)):
            if value is None or value == "" or value == []:
                raise DataError(
                    f"row {number} ({raw_row.where}) has no {column!r}: the suite {suite.name} needs one; "
                    f"the columns are {', '.join(raw_row.row)}"
                )
        more = _read(suite, raw_row) if suite.reader else {"answer": _answer(answer), "problem": problem}
        text = suite.instruction.format(problem=more.pop("problem"))
        rows.append(
            {
                **raw_row.row,
                "answer": None,
                "tests": None,
                **more,
                "prompt": [{"role": "user", "content": text}] if chat else text,
                "key": f"{suite.name}/{number}",
            }
        )
    return PromptSet(rows, source=source)


def _read(suite: Suite, raw_row: RawRow) -> dict[str, Any]:
    try:
        return READERS[suite.reader or ""](raw_row.row)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{raw_row.where} is no problem of the suite {suite.name}: {reason:.200}") from None


def _answer(value: Any) -> str:
    """Text; several answers are one list, as math-verify reads it."""
    return ", ".join(str(part) for part in value) if isinstance(value, list) else str(value)

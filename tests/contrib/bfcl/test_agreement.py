"""Scores are those of bfcl-eval's own checker: for its own answers, and for changed ones."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

from curro.contrib.bfcl import Bfcl, tasks
from curro.contrib.bfcl.environment import STEPS

Steps = list[list[list[str]]]
"""Of a conversation: for each turn its actions, each a list of calls."""


def conversations(category: str) -> list[dict[str, Any]]:
    return [row for split in ("train", "test") for row in tasks.rows(category, split, None)]


def play(row: dict[str, Any], steps: Steps) -> tuple[float, float]:
    """The reward for all turns and the share of turns."""
    episode = Bfcl(partial=True).start(row, 0)
    for turn in steps:
        for calls in turn:
            assert episode.step(f"[{', '.join(calls)}]") is not None
        episode.step("That is done.")
    share = episode.reward()
    return float(share == 1.0), share


def single(answer: list[list[str]]) -> Steps:
    """A call an action; two where a turn would have more actions than a model may take."""
    sizes = [1 if len(turn) < STEPS else 2 for turn in answer]
    return [
        [turn[i : i + size] for i in range(0, len(turn), size)]
        for turn, size in zip(answer, sizes, strict=True)
    ]


def changed(answer: list[list[str]], rng: random.Random) -> Steps:
    """The answer with a call left out, put elsewhere or added, or a turn left out or put off."""
    steps = single(answer)
    k = rng.randrange(len(steps))
    what = rng.randrange(5)
    if what == 0 and steps[k]:
        steps[k].pop(rng.randrange(len(steps[k])))
    elif what == 1:
        steps[k] = []
    elif what == 2 and k + 1 < len(steps):
        steps[k + 1], steps[k] = steps[k] + steps[k + 1], []
    elif what == 3:
        rng.shuffle(steps[k])
    else:
        steps[k] += [[rng.choice(turn)] for turn in rng.sample(answer, 1) if turn]
    return steps


@pytest.mark.parametrize("category", tasks.PUBLISHED)
def test_own_answers_and_changed_ones(category):
    rows = conversations(category)
    assert len(rows) == 200
    raw = {entry["id"]: entry for entry in tasks._lines(tasks._file(category))}
    rng = random.Random(category)
    wrong = 0
    for number, row in enumerate(rows):
        answer = json.loads(row["answer"])
        one_by_one = single(answer)
        at_once: Steps = [[turn] if turn else [] for turn in answer]
        assert play(row, one_by_one) == play(row, at_once) == (1.0, 1.0), row["key"]
        for trial in range(2):
            steps = changed(answer, rng)
            told = multi_turn_checker(
                steps, answer, dict(raw[row["key"]]), category, f"{category}{number}x{trial}"
            )
            right, share = play(row, steps)
            assert right == float(told["valid"]), (row["key"], steps)
            assert (share == 1.0) == told["valid"]
            wrong += not told["valid"]
    assert wrong > 100

"""Moving targets by the length of prompts."""

import pytest

from curro import Curriculum
from curro.data import PromptSet


def test_the_shortest_come_first_and_the_target_moves_by_the_rewards():
    rows = [{"prompt": "x" * length, "answer": "", "key": str(length)} for length in (9, 1, 3, 5, 7)]
    rows[2]["prompt"] = [{"role": "system", "content": "long" * 9}, {"role": "user", "content": "xxx"}]
    curriculum = Curriculum("curro.bench.by_length:ByLength:rate=1", PromptSet(rows), seed=0)
    draw = curriculum.select(2, step=0)
    assert draw.prompts.tolist() == [1, 2], "of 1 and 3 characters"
    curriculum.observe(draw.tickets, [[1.0, 1.0], [1.0, 1.0]])
    # T = tanh(2 (1 - 1/2)) = .7616 of the way from 1 to 9 characters: 7.09
    assert curriculum.select(1, step=1).prompts.tolist() == [4]
    assert curriculum.metrics()["target/difficulty"] == pytest.approx(0.7616, abs=1e-4)

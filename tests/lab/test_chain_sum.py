"""chain_sum: reasoning-gym's problems and scores, our worked totals and their mistakes."""

import json
import random

import pytest

from curro.lab import family
from curro.lab.families.chain_sum import mistakes

TASK = family("chain_sum")


def test_reasoning_gyms_own_answer_scores_one_by_itself_and_after_the_totals() -> None:
    for row in TASK.problems(100, seed=0):
        worked = TASK.worked(row).split()
        assert TASK.score(row["answer"], row) == 1.0
        assert int(worked[-1]) == int(row["answer"])
        assert all(len(total) == 2 for total in worked)
        assert TASK.score(f"{row['answer']} it is", row) == 0.0
        assert TASK.score(f"={row['answer']}", row) == 0.0  # partial credit is no success


def test_a_sum_worked_by_hand() -> None:
    row = {"metadata": {"expression": "3 + 5 - 7 + 9"}, "answer": "10"}
    assert TASK.worked(row) == " 08 01 10"


def test_every_term_fails_at_its_own_rate() -> None:
    rates = {term: rate for term, (rate, _) in mistakes().items()}
    assert sum(rate == 1 for rate in rates.values()) == len(rates) // 10 == 2
    assert all(0.05 <= rate <= 0.6 or rate == 1 for rate in rates.values())
    rng = random.Random(0)
    for row in TASK.problems(20, seed=0):
        _, *words = row["metadata"]["expression"].split()
        chance = 1.0
        for sign, digit in zip(words[::2], words[1::2], strict=True):
            chance *= 1 - rates[sign + digit]
        right = sum(TASK.score(TASK.worked(row, rng), row) for _ in range(300)) / 300
        assert right == pytest.approx(chance, abs=0.1)


def test_an_easy_problem_keeps_to_its_terms_through_json() -> None:
    for row in map(json.dumps, TASK.problems(50, seed=0, difficulty="easy")):
        row = json.loads(row)
        assert row["metadata"]["expression"] in row["prompt"]
        assert int(TASK.worked(row).split()[-1]) == int(row["answer"])

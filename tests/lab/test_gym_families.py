import random

import pytest

from curro.lab import family
from curro.lab.families.gym import GymFamily

NAMES = ["chain_sum", "leg_counting"]


def gym(name: str) -> GymFamily:
    task = family(name)
    assert isinstance(task, GymFamily)
    return task


@pytest.mark.parametrize("name", NAMES)
def test_reasoning_gyms_own_answer_scores_one_by_itself_and_after_the_steps(name: str) -> None:
    for row in gym(name).problems(100, seed=0):
        assert gym(name).score(row["answer"], row) == 1.0
        assert gym(name).worked(row).split(", ")[-1] == row["answer"]
        assert gym(name).score(f"The answer is {row['answer']}.", row) == 0.0  # partial credit is no success


def test_a_sum_worked_by_hand() -> None:
    row = {"metadata": {"expression": "3 + 5 - 9 - 4"}, "answer": "-5"}
    assert gym("chain_sum").worked(row) == "8, -1, -5"
    assert gym("chain_sum").step(27, 8) == (8, (7, True, 8))
    assert gym("chain_sum").step(-3, 8) == (8, (3, False, 8))


def test_legs_counted_by_hand() -> None:
    row = {"metadata": {"animals": {"cow": 2, "snake": 3, "spider": 1}}, "answer": "16"}
    assert gym("leg_counting").worked(row) == "8, 8, 16"


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_fails_at_its_own_rate_and_half_are_bad(name: str) -> None:
    task, rng = gym(name), random.Random(0)
    rates = task.error_rates()
    assert len(rates) > 100
    assert 0.45 < sum(rate >= 0.4 for rate in rates.values()) / len(rates) < 0.55
    for row in task.problems(20, seed=0):
        total, steps = task.start(row["metadata"])
        alright = 1.0
        for step in steps:
            amount, fact = task.step(total, step)
            total += amount
            alright *= 1 - rates[fact]
        right = sum(task.score(task.worked(row, rng), row) for _ in range(1000)) / 1000
        assert abs(right - alright) < 0.06


@pytest.mark.parametrize("name", NAMES)
def test_metadata_goes_through_json(name: str) -> None:
    import json

    for row in gym(name).problems(5, seed=0):
        again = json.loads(json.dumps(row))
        assert gym(name).worked(again) == gym(name).worked(row)

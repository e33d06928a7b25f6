import random

import pytest
import reasoning_gym

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
        assert int(gym(name).worked(row).split()[-1]) == int(row["answer"])
        assert gym(name).score(f"{row['answer']} it is", row) == 0.0
        assert gym(name).score(f"={row['answer']}", row) == 0.0  # partial credit is no success


def test_a_sum_worked_by_hand() -> None:
    row = {"metadata": {"expression": "3 + 5 - 7 + 9"}, "answer": "10"}
    assert gym("chain_sum").worked(row) == " 08 01 10"


def test_every_total_of_a_sum_has_two_digits() -> None:
    for row in gym("chain_sum").problems(200, seed=0):
        assert all(len(total) == 2 for total in gym("chain_sum").worked(row).split())


def test_legs_counted_by_hand() -> None:
    row = {"metadata": {"animals": {"cow": 2, "snake": 1, "spider": 1}}, "answer": "16"}
    assert gym("leg_counting").worked(row) == " 008 008 016"
    assert gym("leg_counting").score(" 008 008 016", row) == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_every_skill_fails_at_its_own_rate(name: str) -> None:
    task, rng = gym(name), random.Random(0)
    rates = {skill: rate for skill, (rate, _) in task.mistakes().items()}
    assert len(rates) >= 20
    assert all(0.05 <= rate <= 0.6 or rate == 1 for rate in rates.values())
    assert sum(rate == 1 for rate in rates.values()) == len(rates) // 10
    for row in task.problems(20, seed=0):
        total, steps = task.start(row["metadata"])
        alright = 1.0
        for step in steps:
            amount, skill = task.step(total, step)
            total += amount
            alright *= 1 - rates[skill]
        right = sum(task.score(task.worked(row, rng), row) for _ in range(300)) / 300
        assert abs(right - alright) < 0.1


@pytest.mark.parametrize("name", NAMES)
def test_an_easy_problem_is_worded_as_reasoning_gym_words_its_steps(name: str) -> None:
    task = gym(name)
    rates = {skill: rate for skill, (rate, _) in task.mistakes().items()}
    for row in task.problems(100, seed=0, difficulty="easy"):
        own = reasoning_gym.create_dataset(name, seed=0, **task.settings["short"])[0]
        wording = task.phrase(own["metadata"])
        assert wording in own["question"]
        assert row["prompt"] == own["question"].replace(wording, task.phrase(row["metadata"]))
        assert int(task.worked(row).split()[-1]) == int(row["answer"])
        total, steps = task.start(row["metadata"])
        assert max(rates[task.step(total, step)[1]] for step in steps) <= 0.4


@pytest.mark.parametrize("name", NAMES)
def test_metadata_goes_through_json(name: str) -> None:
    import json

    for row in gym(name).problems(5, seed=0):
        again = json.loads(json.dumps(row))
        assert gym(name).worked(again) == gym(name).worked(row)

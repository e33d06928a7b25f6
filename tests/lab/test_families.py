import random

import pytest
from benchmarks.learning.warm_models import demonstration

from curro.core.errors import ConfigError
from curro.lab import families, family

NAMES = families()
PARTIAL = ["chains_share"]
SCORED = [name for name in NAMES if name != "locks"]  # which is scored by its environment: see test_locks
HOSTILE = [
    "",
    " ",
    "\n" * 50,
    "nan",
    "inf",
    "-",
    "1e999999999",
    "9" * 10_000,
    "<eos>",
    "é\x00漢",
    ",,,",
    "= =",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("difficulty", ["hard", "easy"])
def test_problems_are_unique_and_the_splits_disjoint(name: str, difficulty: str) -> None:
    task = family(name)
    n = task.easy_problems if difficulty == "easy" else {"train": 400, "test": 200}
    train = [r for seed in (0, 1) for r in task.problems(n["train"], seed=seed, difficulty=difficulty)]
    test = [r for s in (0, 1) for r in task.problems(n["test"], seed=s, difficulty=difficulty, split="test")]
    first = train[: n["train"]]
    assert len({r["prompt"] for r in first}) == len({r["key"] for r in first}) == n["train"]
    assert not {r["prompt"] for r in train} & {r["prompt"] for r in test}


@pytest.mark.parametrize("name", NAMES)
def test_same_arguments_same_problems(name: str) -> None:
    assert family(name).problems(50, seed=3) == family(name).problems(50, seed=3)
    assert family(name).problems(50, seed=3) != family(name).problems(50, seed=4)
    assert family(name).problems(50, seed=3)[:20] == family(name).problems(20, seed=3)


@pytest.mark.parametrize("name", SCORED)
def test_the_right_worked_answer_scores_one_and_a_wrong_or_hostile_one_zero(name: str) -> None:
    task = family(name)
    for row in task.problems(100, seed=0) + task.problems(100, seed=0, difficulty="easy"):
        right = task.worked(row)
        assert task.score(right, row) == 1.0
        assert task.score(right + "7", row) <= (0.95 if name in PARTIAL else 0.0)
        for text in HOSTILE:
            assert task.score(text, row) <= (0.5 if name in PARTIAL else 0.0)


@pytest.mark.parametrize("name", [name for name in SCORED if name not in PARTIAL])
def test_demonstrations_are_training_problems_and_longer_ones_are_wrong_more_often(name: str) -> None:
    task = family(name)
    rng = random.Random(0)
    rows = {d: task.problems(250, seed=1, difficulty=d) for d in ("hard", "easy")}
    right = {d: sum(task.score(task.worked(r, rng), r) for r in rows[d]) / 250 for d in rows}
    assert right["hard"] < 0.3
    assert 0.55 < right["easy"] < 0.9
    train = {r["prompt"] for r in task.problems(500, seed=2, split="test")}
    assert not train & {demonstration(task, rng)[0] for _ in range(500)}


def test_unknown_names_are_answered_with_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"'chain'.*chains"):
        family("chain")
    with pytest.raises(ConfigError, match=r"'medium'.*hard, easy"):
        family("chains").problems(1, seed=0, difficulty="medium")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has not as many"):
        family("chains").problems(1_000, seed=0, difficulty="easy")


def test_solvable_words_have_no_letter_that_no_practice_teaches():
    words = family("spell_backward").problems(40, seed=0, difficulty="solvable", split="test")
    assert not any(set("eo") & set(row["answer"]) for row in words)
    with pytest.raises(ConfigError, match="difficulty 'solvable' is not one of hard, easy"):
        family("chains").problems(4, seed=0, difficulty="solvable")

import random

import pytest

from curro.errors import ConfigError
from curro.lab import families, family

NAMES = families()
PARTIAL = ["chains_share"]
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
    train = [r for seed in (0, 1) for r in task.problems(400, seed=seed, difficulty=difficulty)]
    test = [r for seed in (0, 1) for r in task.problems(200, seed=seed, difficulty=difficulty, split="test")]
    assert len({r["prompt"] for r in train[:400]}) == len({r["key"] for r in train[:400]}) == 400
    assert not {r["prompt"] for r in train} & {r["prompt"] for r in test}


@pytest.mark.parametrize("name", NAMES)
def test_same_arguments_same_problems(name: str) -> None:
    assert family(name).problems(50, seed=3) == family(name).problems(50, seed=3)
    assert family(name).problems(50, seed=3) != family(name).problems(50, seed=4)
    assert family(name).problems(50, seed=3)[:20] == family(name).problems(20, seed=3)


@pytest.mark.parametrize("name", NAMES)
def test_the_right_worked_answer_scores_one_and_a_wrong_or_hostile_one_zero(name: str) -> None:
    task = family(name)
    for row in task.problems(100, seed=0) + task.problems(100, seed=0, difficulty="easy"):
        right = task.worked(row)
        assert task.score(right, row) == 1.0
        assert task.score(right + "7", row) <= (0.95 if name in PARTIAL else 0.0)
        for text in HOSTILE:
            assert task.score(text, row) <= (0.5 if name in PARTIAL else 0.0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PARTIAL])
def test_demonstrations_are_training_problems_and_longer_ones_are_wrong_more_often(name: str) -> None:
    task = family(name)
    rng = random.Random(0)
    rows = {d: task.problems(300, seed=1, difficulty=d) for d in ("hard", "easy")}
    right = {d: sum(task.score(task.worked(r, rng), r) for r in rows[d]) / 300 for d in rows}
    assert 2 * right["hard"] < right["easy"] < 0.9
    assert right["hard"] < 0.3
    train = {r["prompt"] for r in task.problems(500, seed=2, split="test")}
    assert not train & {task.demonstration(rng)[0] for _ in range(500)}


def test_unknown_names_are_answered_with_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"'chain'.*chains"):
        family("chain")
    with pytest.raises(ConfigError, match=r"'medium'.*hard, easy"):
        family("chains").problems(1, seed=0, difficulty="medium")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has not as many"):
        family("chains").problems(10**5, seed=0, difficulty="easy")

"""The reward that is a share: by hand, and through short runs of the methods that see rewards."""

import json

import pytest
from typer.testing import CliRunner

from curro.cli import make_app
from curro.lab import family, load
from curro.lab.families.chains import MAPS
from curro.reward import resolve_reward

TRAIN = make_app(["train"])

SHARE = family("chains_share")
ROW = {"prompt": "3afc=", "answer": "407"}


@pytest.mark.parametrize(
    ("completion", "reward"),
    [
        ("407", 1),
        (" 407\n", 1),
        ("417", 2 / 3),
        ("40", 2 / 3),
        ("4070", 3 / 4),
        ("074", 0),
        ("", 0),
        ("no", 0),
    ],
)
def test_digits_count_in_their_place(completion: str, reward: float) -> None:
    assert SHARE.score(completion, ROW) == pytest.approx(reward)


def test_a_chain_worked_by_hand() -> None:
    first = MAPS["a"][3]
    second = MAPS["f"][first]
    assert family("chains").worked({"prompt": "3af="}) == f"{first}{second}"


def test_full_marks_are_what_chains_calls_right() -> None:
    task = family("chains")
    for row in task.problems(50, seed=0):
        right = "".join(str(digit) for digit in _digits(row["prompt"]))
        wrong = right[:-1] + str((int(right[-1]) + 1) % 10)
        assert SHARE.score(right, row) == task.score(right, row) == 1
        assert task.score(wrong, row) == 0
        assert SHARE.score(wrong, row) == pytest.approx(1 - 1 / len(right))


def _digits(prompt: str) -> list[int]:
    digits = [int(prompt[0])]
    for letter in prompt[1:-1]:
        digits.append(MAPS[letter][digits[-1]])
    return digits[1:]


def test_the_reward_lab_is_the_share() -> None:
    for name in ("lab:chains_share", "lab:chains_share/easy"):
        assert resolve_reward(name).score(["417"], [ROW]) == [pytest.approx(2 / 3)]


def test_the_warm_model_is_that_of_chains() -> None:
    assert SHARE.checkpoint == "chains"
    ours, theirs = load("chains_share")[0].state_dict(), load("chains")[0].state_dict()
    assert all(bool((ours[name] == theirs[name]).all()) for name in theirs)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("curriculum", "admission"),
    [("metis:template=lab,max_tokens=4,candidates=2", None), ("uniform", "variance:0.01")],
)
def test_every_kind_of_method_trains_on_shares(tmp_path, curriculum, admission) -> None:
    arguments = ["train", "--data", "lab:chains_share", "--curriculum", curriculum, "--limit", "60"]
    arguments += ["--prompts-per-step", "4", "--rollouts", "64", "--eval-prompts", "10", "--eval-every", "0"]
    arguments += ["--admission", admission] if admission else []
    result = CliRunner().invoke(TRAIN, [*arguments, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["rollouts"] >= 64
    assert 0 < lines[-1]["eval/pass@1"] < lines[-1]["eval/reward"] < 1

"""What every reward checks, and the one that compares texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from curro.core.errors import RewardError
from curro.reward import Reward, resolve_reward


def reward(*scores: object) -> Reward:
    return Reward("mine", lambda completions, rows: scores)  # type: ignore[arg-type, return-value]


def test_scores_come_out_as_floats_and_none():
    rows = [{"key": str(i)} for i in range(5)]
    scores = reward(1, True, None, np.float32(0.5), -2.0).score(["x"] * 5, rows)
    assert scores == [1.0, 1.0, None, 0.5, -2.0]
    assert [type(score) for score in scores] == [float, float, type(None), float, float]


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, np.float32("nan"), "good", "1.0", [1.0, 2.0], 10**400]
)
def test_what_is_no_finite_number_is_refused_with_the_prompts_key(bad):
    with pytest.raises(
        RewardError, match=r"^reward 'mine' gave .* for the prompt 'k1': a reward is a finite number"
    ):
        reward(1.0, bad).score(["x", "y"], [{"key": "k0"}, {"key": "k1"}])


def test_lengths_must_agree():
    with pytest.raises(RewardError, match="2 completions of 1 prompts"):
        reward(1.0).score(["x", "y"], [{}])
    with pytest.raises(RewardError, match="1 scores of 2 completions"):
        reward(1.0).score(["x", "y"], [{}, {}])


@pytest.mark.parametrize(
    ("completion", "answer", "score"),
    [
        (" 42\n", "42", 1.0),
        ("42.0", "42", 0.0),
        ("the answer is 42", "42", 1.0),
        ("<think>43</think> <answer>**42**</answer>", "42", 1.0),
        (r"\boxed{\text{Paris}}", "Paris", 1.0),
        ("The answer is (B).", "B", 1.0),
        (r"so \boxed{42}", "42", 1.0),
        ("first 41\n#### 42", "worked\n#### 42", 1.0),
        (r"42 \boxed{41}", "42", 0.0),
        ("42", '["41", "42"]', 1.0),
        ("", "42", 0.0),
        ("anything", None, None),
    ],
)
def test_exact(completion, answer, score):
    assert resolve_reward("exact").score([completion], [{"answer": answer}]) == [score]

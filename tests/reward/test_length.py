"""Rewards by length, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from curro.core.errors import RewardError
from curro.reward import resolve_reward


def rows(*lengths: int) -> list[dict]:
    return [{"answer": "5", "key": "k", "completion_tokens": tokens} for tokens in lengths]


def test_cosine_of_right_and_wrong_completions():
    """cos is 1 at 0, 0 at half the limit, -1 at the limit; 1/2 (1 + cos(pi/3)) = 3/4 at a third of it."""
    cosine = resolve_reward("cosine:limit=300")
    lengths = rows(0, 100, 150, 300, 1000)
    assert cosine.score([r"\boxed{5}"] * 5, lengths) == pytest.approx([1.0, 0.875, 0.75, 0.5, 0.5])
    assert cosine.score([r"\boxed{6}"] * 5, lengths) == pytest.approx([-1.0, -0.875, -0.75, -0.5, -0.5])


def test_cosine_of_another_verifier_and_with_other_ends():
    cosine = resolve_reward("cosine:limit=100,of=exact,right_shortest=2,wrong_longest=0")
    assert cosine.score(["5", "5.0"], rows(50, 50)) == pytest.approx([1.25, -0.5])
    unanswered = {"answer": None, "completion_tokens": 3}
    assert cosine.score(["5"], [unanswered]) == [None]


def test_overlong_falls_linearly_over_the_buffer():
    """DAPO's own numbers: L_max 20480 with a cache of 4096."""
    overlong = resolve_reward("overlong:limit=20480,buffer=4096")
    scores = overlong.score([""] * 6, rows(0, 16384, 17408, 18432, 20480, 30000))
    assert scores == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    assert math.copysign(1, scores[0]) == 1


def test_whoever_calls_must_tell_the_length():
    with pytest.raises(RewardError, match="must know how many tokens"):
        resolve_reward("overlong:limit=10,buffer=5").score([""], [{"key": "k"}])

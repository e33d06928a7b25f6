"""The five constraints of the format, one by one."""

from __future__ import annotations

import pytest

from curro.core.errors import RewardError
from curro.reward import resolve_reward

FORMAT = resolve_reward("format")
ENDED, CUT = {"completion_cut": False}, {"completion_cut": True}


@pytest.mark.parametrize(
    ("text", "row", "kept"),
    [
        ("<think>so</think>5", ENDED, 5),
        ("<think>so</think>5", CUT, 4),
        ("Well <think>so</think>5", ENDED, 4),
        ("<think> \n</think>5", ENDED, 4),
        ("<think>so</think> \n", ENDED, 4),
        ("<think></think>", ENDED, 3),
        ("<think>so</think>5</think>", ENDED, 4),
        ("<think>so<think></think>5", ENDED, 4),
        ("<think>so, and so on", CUT, 1),
        ("so</think>5", ENDED, 2),
        ("5", ENDED, 1),
        ("", CUT, 0),
    ],
)
def test_each_constraint_is_a_fifth(text, row, kept):
    assert FORMAT.score([text], [row]) == [kept / 5]


def test_a_template_that_opens_the_thought_itself():
    opened = resolve_reward("format:opened=true")
    assert opened.score(["so</think>5", "<think>so</think>5"], [ENDED] * 2) == [1.0, 0.8]


def test_whoever_calls_must_tell_whether_a_completion_was_cut():
    with pytest.raises(
        RewardError, match=r"^the reward 'format' must know whether .* 'k' has no 'completion_cut'"
    ):
        FORMAT.score(["x"], [{"key": "k"}])


def test_pspo_s_authors_ask_for_one_line_that_closes_the_thought():
    twice = "a\n</think>\nb\n</think>\nc"
    texts = ["<think>a\n</think>\nb", "a</think>\nb", "a\n</think> b", twice, "", "\n</think>\n"]
    scores = resolve_reward("closed-thought").score(texts, [{"key": "k"}] * len(texts))
    assert scores == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("x² + é = 5 √2", 1.0),
        ("ab因为", 0.5),
        ("", 1.0),
        ("да, it is", 7 / 9),
        ("so θ = π/2, \N{MATHEMATICAL ITALIC SMALL X} ∈ \N{DOUBLE-STRUCK CAPITAL R} and Δα < ε", 1.0),
        (r"so $λμν = \beta$ and \(λμν\)", 1.0),  # letters of formulas are symbols
        ("so $因为$", 5 / 7),  # prose that hides in a formula
        ("so και 1", 5 / 8),
        (100_000 * "$", 1.0),  # hostile: takes no time
        (33_000 * r"\[因", 2 / 3),
    ],
)
def test_the_share_of_characters_that_english_has(text, share):
    assert resolve_reward("language").score([text], [{}]) == [pytest.approx(share)]

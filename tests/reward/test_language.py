"""One language or several, by letters counted by hand; and text that no language is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.reward import resolve_reward
from curro.reward.language import consistency

ENGLISH = {"prompt": "What is the sum of the first ten odd numbers?"}
GERMAN = {"prompt": [{"role": "user", "content": "Wie groß ist die Summe der ersten zehn ungeraden Zahlen?"}]}


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("So we add all of the numbers and get the sum.", 1.0),
        ("", 1.0),
        ("12 + 13 = 25", 1.0),
        ("因此答案是五,所以我们得到七.", 0.0),
        ("we add 因为 three", 10 / 12),  # two runs of ten Latin letters in all, one of two Chinese ones
        # 29 letters of English, 28 of German
        ("Then you have to add the two numbers. Also ist die Summe gleich fünfzig.", 29 / 57),
        (r"we add $\text{абвгд}$ \frac and \(абв\) `x` λ", 1.0),  # formulas, commands, single letters
        ("```python\n因为所以\n``` we add", 1.0),
        ("<think>we add</think>", 1.0),
    ],
)
def test_the_share_of_letters_in_the_prompt_s_language(text, share):
    assert resolve_reward("language").score([text], [ENGLISH]) == [pytest.approx(share)]


def test_the_target_is_the_prompt_s_or_the_option_s():
    text = "Also ist die Summe der ungeraden Zahlen gleich hundert."
    assert resolve_reward("language").score([text] * 2, [GERMAN, ENGLISH]) == [1.0, 0.0]
    assert resolve_reward("language:target=de").score([text], [ENGLISH]) == [1.0]
    assert consistency("因此答案是五,所以我们得到七", "zh") == 1.0


@pytest.mark.parametrize(
    ("prompt", "shares"),
    [
        ("elkge=", (1.0, 1.0, 0.0)),  # the detector takes five letters for a language at random
        ("Compute 3 + 4.", (1.0, 1.0, 0.0)),
        ("求 x 的值。", (0.0, 0.0, 1.0)),
        ("12 + x = 25", (1.0, 1.0, 1.0)),
    ],
)
def test_a_short_prompt_has_a_script_and_no_language(prompt, shares):
    texts = [
        "So we add all of the numbers and get the sum.",
        "Also ist die Summe der ungeraden Zahlen gleich hundert.",
        "因此答案是五,所以我们得到七.",
    ]
    assert tuple(resolve_reward("language").score(texts, [{"prompt": prompt}] * 3)) == shares


def test_the_paper_s_count_of_characters():
    by = resolve_reward("language:by=characters")
    texts = ["x² + é = 5 √2", "ab因为", "", "да, it is"]
    assert by.score(texts, [ENGLISH] * 4) == [1.0, 0.5, 1.0, pytest.approx(7 / 9)]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("so θ = π/2, \N{MATHEMATICAL ITALIC SMALL X} ∈ \N{DOUBLE-STRUCK CAPITAL R} and Δα < ε", 1.0),
        (r"so $λμν = \beta$ and \(λμν\)", 1.0),
        ("so $因为$", 5 / 7),  # prose that hides in a formula
        ("so και 1", 5 / 8),
        ("因π", 1 / 2),
    ],
)
def test_letters_of_formulas_are_symbols_in_the_paper_s_count(text, share):
    assert resolve_reward("language:by=characters").score([text], [ENGLISH]) == [pytest.approx(share)]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_any_text_has_a_share(text):
    assert 0 <= consistency(text, "en") <= 1


@pytest.mark.parametrize("piece", ["$", r"\(", r"\[", "```", "<a", "$a ", "因", "é", "a\n"])
def test_hostile_text_takes_no_time(piece):
    started = time.process_time()
    consistency(piece * (1_000_000 // len(piece)), "en")
    assert time.process_time() - started < 20

"""The texts of prompts, as methods and rewards read them."""

import numpy as np
import pytest

from curro.core.text import prompt_text

SYSTEM = {"role": "system", "content": "be brief"}
USER = {"role": "user", "content": "2 + 2"}
PARTS = [
    {"type": "text", "text": "What is this?"},
    {"type": "image", "text": None},
    {"type": "text", "text": "Say it."},
]


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (None, ""),
        ("2 + 2", "2 + 2"),
        ([SYSTEM, USER], "2 + 2"),
        ([USER, {"role": "assistant", "content": None}, USER], "2 + 2||2 + 2"),
        ([{"role": "user", "content": PARTS}], "What is this?\nSay it."),
        (["no message", USER], "2 + 2"),
        (np.array([SYSTEM, USER], object), "2 + 2"),
        (np.array([{"role": "user", "content": np.array(PARTS, object)}], object), "What is this?\nSay it."),
    ],
)
def test_the_text_of_a_prompt(prompt, text):
    assert prompt_text(prompt, "|") == text


def test_the_text_of_a_prompt_with_the_systems_messages():
    assert prompt_text([SYSTEM, USER], with_system=True) == "be brief\n2 + 2"

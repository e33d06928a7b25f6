"""Where the answer stands, worked by hand, and in time linear in hostile text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.reward.completion import after_hashes, final_answer, in_answer_tags, last_boxed


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"so \boxed{ 5 }.", "5"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox {3}", "3"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{1} and then \boxed{2", "1"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ 1 \right.}", r"\left\{ 1 \right."),
        (r"\\\boxed{4}", "4"),
        (r"\boxed{}", ""),
        (r"} \boxed{7}", "7"),
        ("no box, {5}", None),
        (r"\boxed 5", None),
    ],
)
def test_last_boxed(text, content):
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    ("text", "content"), [("a #### 1\n#### 72 \nbye", "72"), ("####5", "5"), ("72", None), ("####", "")]
)
def test_after_hashes(text, content):
    assert after_hashes(text) == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<answer> 1 </answer> <answer>\n2\n</answer>", "2"),
        ("<answer>1</answer> <answer>2", "1"),
        ("1</answer>", None),
        ("<answer>1", None),
    ],
)
def test_in_answer_tags(text, content):
    assert in_answer_tags(text) == content


def test_a_box_wins_over_hashes():
    assert final_answer(r"\boxed{1} #### 2") == "1"
    assert final_answer(r"#### 2 \boxed{}") == ""
    assert final_answer("#### 2") == "2"
    assert final_answer("2") is None


@pytest.mark.parametrize(
    "piece", [r"\boxed{", "{", "}", "\\", r"\boxed ", "####", "<answer>", "</answer>", "\n"]
)
def test_ten_million_characters_take_no_time(piece):
    text = piece * (10_000_000 // len(piece))
    started = time.process_time()
    for find in (last_boxed, after_hashes, in_answer_tags, final_answer):
        find(text)
    assert time.process_time() - started < 1


@given(
    st.lists(st.sampled_from([r"\boxed{", "{", "}", "\\", "x", " ", "####", "<answer>", "</answer>"])).map(
        "".join
    )
)
def test_any_text_is_read_and_what_is_found_stands_in_it(text):
    for find in (last_boxed, after_hashes, in_answer_tags, final_answer):
        found = find(text)
        assert found is None or found in text


@given(st.text(alphabet="ab 1+"), st.text(alphabet="ab 1+"))
def test_a_box_put_around_a_text_is_found(before, inside):
    assert last_boxed(rf"{before}\boxed{{{inside}}}{before}") == inside.strip()

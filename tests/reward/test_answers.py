"""Where the answer stands, worked by hand, and in time linear in hostile text."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.reward import answers, resolve_reward
from curro.reward.answers import (
    accepted,
    after_hashes,
    candidates,
    in_answer_tags,
    last_boxed,
    marked,
    outside_thoughts,
    spoken,
)
from curro.reward.choices import options_of
from curro.reward.notation import last_expression, unwrapped
from curro.reward.programs import program_of
from curro.reward.quantities import number

READERS = {
    "the last box": last_boxed,
    "after hashes": after_hashes,
    "in answer tags": in_answer_tags,
    "outside thoughts": lambda text: outside_thoughts(text).strip(),
    "the first candidate": lambda text: next(candidates(text), None),
    "the last expression": last_expression,
}
READ = {
    "the last box": [
        (r"so \boxed{ 5 }.", "5"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{1} or \boxed{2}", "1, 2"),
        (r"$\boxed{1}$, $\boxed{2}$ and $\boxed{2}$", "1, 2"),
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
        (r"\boxed 5", "5"),
        (r"\boxed{", ""),
    ],
    "after hashes": [
        ("a #### 1\n#### 72 \nbye", "72"),
        ("####5", "5"),
        ("72", None),
        ("####", ""),
        ("#### Step 1\n3\n#### Step 2: add\nso 5", None),
        ("#### Final Answer\n#### 72", "72"),
        ("#### yes", "yes"),
    ],
    "in answer tags": [
        ("<answer> 1 </answer> <answer>\n2\n</answer>", "2"),
        ("<answer>1</answer> <answer>2", "1"),
        ("1</answer>", None),
        ("<answer>1", "1"),
        ("<Final_Answer>1</Final_Answer>", "1"),
    ],
    "outside thoughts": [
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a", ""),
        ("<think>a</think>b<think>c", ""),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a<think>b</think>c", ""),
        ("<think>\n<think>a</think>b", "b"),
        ("<Thinking>a</Thinking >b", "b"),
        ("<reasoning>a</reasoning><answer>b</answer>", "<answer>b</answer>"),
        ("[THINK]a[/THINK]b", "b"),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
            "b",
        ),
        ("<|channel|>analysis<|message|>a", ""),
        ("analysisWe see a.assistantfinalb", "b"),
        ("analysisWe see a.", ""),
        ("no thought", "no thought"),
    ],
    "the first candidate": [
        (r"<answer>1</answer> \boxed{2} #### 3", "1"),
        (r"<answer>so \boxed{1}</answer>", "1"),
        (r"\boxed{1} #### 2", "1"),
        ("#### 1\nThe answer is 2.", "1"),
        ("The answer is 1. Final answer: 2.5.", "2.5"),
        ("**Final Answer**\n\n$42$", "$42$"),
        ("The answer is:\n$$\n42\n$$", "42"),
        ("The final answer is $42$. I hope it is correct.", "$42$"),
        ("答案是 42。", "42"),
        ("an answer", None),
    ],
    "the last expression": [
        ("She has 5 + 3 = 8 apples.", "5 + 3 = 8"),
        ("It costs $1,200 a month.", "$1,200"),
        ("so $x=2$ holds", "x=2"),
        ("in all 6π", r"6\pi"),
        ("4 dogs, 7 in all", "7"),
        ("no number", None),
    ],
}
"""What each reader finds in a text."""


@pytest.mark.parametrize(("reader", "text", "found"), [(name, *case) for name in READ for case in READ[name]])
def test_what_is_read(reader, text, found):
    assert READERS[reader](text) == found


def test_a_thought_that_the_prompt_opened():
    assert outside_thoughts("a", opened=True) == ""
    assert outside_thoughts("a</think>b", opened=True) == "b"
    assert outside_thoughts("<think>a</think>b", opened=True) == "b"
    messages = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "<think>\n"}]
    for prompt in ("1+1 <think>", messages):
        assert spoken(r"\boxed{2}", {"prompt": prompt}) == ""
    for name in ("math", "exact"):
        rows = [{"answer": "2"}] * 2
        reward = resolve_reward(f"{name}:opened=true")
        assert reward.score([r"it is \boxed{2}", r"so</think>\boxed{2}"], rows) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ("5", ["5"]),
        (5, ["5"]),
        (0.25, ["0.25"]),
        (["5", "5.0"], ["5", "5.0"]),
        ('["5", "5.0"]', ["5", "5.0"]),
        ("['5', '']", ["5"]),
        ("[1, 2]", ["[1, 2]"]),
        ([1, 2], ["[1, 2]"]),
        ([5, "five"], ["5", "five"]),
        (r"So \boxed{5}.", ["5"]),
        *(
            (nothing, [])
            for nothing in (
                None,
                float("nan"),
                "",
                " ",
                r"\text{N/A}",
                "[]",
                "null",
                "(proof)",
                "not_found",
                r"\boxed{}",
                "N / A",
                "…",
                r"\(\)",
                "see solution",
                "The proof is given above",
                "No final answer",
                "Proof by induction",
                "#REF!",
                "<image>",
                r"\blacksquare",
                r"\quad",
                "N.A.",
                "略",
                "omitted",
                [],
                [""],
                '["", null]',
                "notfound",
                "Not found",
                "<answer></answer>",
            )
        ),
        *((nested, ["18", "18.0"]) for nested in ([["18", "18.0"]], '[["18", "18.0"]]')),
        ([[1, 2]], ["[[1, 2]]"]),
        (42.0, ["42"]),
        ([0.10000000149011612, 42.0], ["[0.1, 42.0]"]),
        (Decimal("42.00"), ["42"]),
        ([Decimal("1.50"), Decimal("2.00")], ["[1.5, 2]"]),
        (b"42", ["42"]),
        (np.array(["1", "2"]), ["1", "2"]),
        (["x", 0.10000000149011612], ["x", "0.1"]),
    ],
)
def test_accepted_answers(answer, texts):
    assert accepted({"answer": answer}) == texts


@pytest.mark.parametrize("name", ["math", "exact"])
def test_rows_with_a_placeholder_are_not_scored_and_said(name):
    with pytest.warns(RuntimeWarning, match=f"{name}.*'N/A' says that there is none"):
        assert resolve_reward(name).score(["", "N/A"], [{"answer": "N/A"}] * 2) == [None, None]


@pytest.mark.parametrize("answer", [{"answer": "18"}, '{"answer": "18"}'])
def test_an_object_with_names_is_no_answer_and_rows_with_one_are_not_scored(answer):
    with pytest.warns(RuntimeWarning, match="'answer': '18'|\"answer\": \"18\".*is an object with names"):
        assert resolve_reward("math").score(["18"], [{"answer": answer}]) == [None]


PIECES = [
    r"\boxed{",
    "{",
    "}",
    "\\",
    r"\boxed ",
    "####",
    "#### a\n",
    "<answer>",
    "</answer>",
    "\n",
    "<think>",
    " ",
    "</think>",
    "answer is ",
    "Answer:\n",
    "<",
    "$",
    "1 ",
    "(",
    "a ",
    "analysisA",
    "<|channel|>",
    "**",
    r"\[",
    "</s>",
    r"\text{",
    "(Answer: ",
    "$$",
    "-",
    "9",
    "\0",
    "\ud800",
    "=",
    r"\frac{",
    "1,",
]


# A search that is quadratic in the length would need an hour for these texts: then a test does not end.
@pytest.mark.parametrize("piece", PIECES)
def test_the_end_of_a_million_characters_decides(piece):
    text = piece * (1_000_000 // len(piece))
    assert len(outside_thoughts(text)) <= len(text)
    assert len(spoken(text, {"prompt": text})) <= answers.TAIL
    for find in (last_boxed, after_hashes, in_answer_tags, marked, last_expression):
        assert find(text) == find(text[-answers.TAIL :])
    assert list(candidates(text)) == list(candidates(text[-answers.TAIL :]))
    assert len(accepted({"answer": text})) <= 1
    for read in (unwrapped, number):
        read(text[:1000])
    assert resolve_reward("math").score([text], [{"answer": "5"}]) == [0.0]


@pytest.mark.parametrize("piece", ["```\n", "```python\nx = 1\n(\n```\n", "~", "``` ", "</s>", "<code>"])
def test_a_program_is_found_in_a_long_text(piece):
    assert program_of(piece * (250_000 // len(piece)) + "`\n```python\nx = 1\n```") == "x = 1"


@pytest.mark.parametrize("text", ["\n{}(", "(A){}(", "A. a{}b", "(A) a{}(", "a) b{}c"])
@pytest.mark.parametrize("gap", [" ", "\n", " ,", "a "])
def test_options_are_found_in_a_long_text(text, gap):
    text = text.format(gap * (1_000_000 // len(gap)))
    assert options_of({"prompt": text}) == {}
    assert {"A", "B"} <= set(options_of({"prompt": "", "options": f"a ) 31 , b ) {text}"}))


@given(st.lists(st.sampled_from([*PIECES, "x"])).map("".join))
def test_any_text_is_read(text):
    for find in (after_hashes, in_answer_tags, *([marked] if r"\boxed" not in text else [])):
        content = find(text)
        assert content is None or content in text
    list(answers.said(text))
    assert "<think>" not in outside_thoughts(text) or "<|channel|>" in text


@given(st.text(alphabet="ab 1+"), st.text(alphabet="ab 1+"))
def test_a_box_put_around_a_text_is_found(before, inside):
    assert last_boxed(rf"{before}\boxed{{{inside}}}{before}") == inside.strip()


@given(st.text(alphabet=r"ab1\{}<>/#:$ "), st.text(alphabet="ab 1+"))
def test_a_thought_says_nothing(thought, answer):
    assert outside_thoughts(f"<think>{thought}</think>{answer}") == f"\n{answer}"
    assert outside_thoughts(f"<think>{thought}{answer}") == ""


@given(st.text(max_size=80))
def test_unwrapping_twice_is_unwrapping_once(text):
    assert unwrapped(unwrapped(text)) == unwrapped(text)

"""Mathematical equality; and hostile text, in any thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curro.reward import resolve_reward
from curro.reward.checks import checks

MATH = resolve_reward("math")


@pytest.fixture(scope="module", autouse=True)
def all_in_time():
    """However long the workers of a busy machine take to start, every answer of a batch is checked."""
    pool = checks("curro.reward.math_check")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "scores", partial(pool.scores, seconds=900.0))
        yield


def score(completion: str, answer: str | None) -> float | None:
    return MATH.score([completion], [{"answer": answer, "key": "k"}])[0]


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{0.5}", "1/2"),
        (r"\boxed{\dfrac{1}{2}}", r"\frac12"),
        (r"\boxed{\dfrac{1}{2}}", r"$\frac{1}{2}$"),
        (r"so \boxed{72 apples}", "She sold 24. In all 48 + 24 = 72.\n#### 72"),
        ("so it is\n#### 1000", "1,000"),
        ("The answer is 72.", "72"),
        ("so 2 + 3 = 5", "5"),
        ("The final answer is $\\sqrt 2$.", r"\sqrt{2}"),
        (r"\boxed{\{2, 1\}}", r"\{1,2\}"),
        (r"\boxed{x = 5}", "5"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{(x+1)^2}", "x^2+2x+1"),
        (r"\boxed{18}", r"\$18"),
        (r"\boxed{\$36.00}", r"\$36"),
        (r"it costs $\boxed{32348}$", r"\$32,\!348"),
        (r"\boxed{1} is wrong, so \boxed{2}", r"We find that \boxed{2.0}."),
        ("a text that no mathematics can read", "a text that no mathematics can read"),
    ],
)
def test_equal(completion, answer):
    assert score(completion, answer) == 1.0


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{3}", "2"),
        (r"\boxed{2} is wrong, so \boxed{3}", "2"),
        (r"2 \boxed{", "3"),
        (r"\boxed{1, 2, 3}", "2"),
        ("", "2"),
        ("two", "2"),
        ("no number", "yes"),
        (r"\boxed{}", "2"),
        (r"\boxed{" + "1 + " * 400 + "1}", "401"),
    ],
)
def test_unequal(completion, answer):
    assert score(completion, answer) == 0.0


def test_only_boxed_answers_count_where_that_is_asked_for():
    completions = [r"so \boxed{0.5}", "so 1/2", "#### 1/2", "1/2", r"\boxed{1/3} is 1/2"]
    rows = [{"answer": "1/2", "key": "k"}] * len(completions)
    assert MATH.score(completions, rows) == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert resolve_reward("math:boxed=true").score(completions, rows) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert resolve_reward("math:boxed=true").score(["1"], [{"answer": None}]) == [None]


def test_where_the_time_is_over_there_is_no_score(monkeypatch):
    pool = checks("curro.reward.math_check")
    monkeypatch.setattr(pool, "scores", partial(pool.scores, seconds=-1.0))
    monkeypatch.setattr(pool, "_has_warned", False)
    completions = [r"\boxed{0.125}", "1/8", "x"]
    with pytest.warns(RuntimeWarning, match=r"^2 of 2 answers were not checked in time"):
        assert MATH.score(completions, [{"answer": "1/8"}] * 3) == [None, 1.0, None]


def test_a_row_without_answer_is_not_scored():
    assert MATH.score(["1", "1"], [{"answer": None}, {"answer": "1"}]) == [None, 1.0]


BOMBS = ["9**9**9**9**9", r"\boxed{10^{10^{10}}}"]  # in SymPy's Python, and in the C below it


def test_texts_that_would_take_for_ever_are_wrong_answers_and_the_next_ones_are_scored():
    started = time.monotonic()
    completions = [*BOMBS, r"\boxed{5.0}"]
    assert MATH.score(completions, [{"answer": "5"}] * 3) == [0.0, 0.0, 1.0]
    assert time.monotonic() - started < 600
    assert score(r"\boxed{6.0}", "6") == 1.0


@pytest.mark.parametrize(
    "piece",
    [
        "(",
        r"\boxed{",
        "$",
        "$$",
        "answer is ",
        "1 ",
        "-",
        "\\",
        "}",
        "\\[",
        "9",
        "\0",
        "\ud800",
        "=",
        "\\frac{",
        "1,",
    ],
)
def test_a_million_characters_of_anything(piece):
    assert score(piece * (1_000_000 // len(piece)), "5") == 0.0


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet=r"\{}[]()$^_/*+-=.,%x19 ", max_size=25), st.text(max_size=20))
def test_any_text_against_any_answer_is_right_or_wrong(completion, answer):
    assert score(completion, answer) in (0.0, 1.0)


def test_threads_that_are_not_the_main_one_get_what_the_main_one_gets():
    completions = [rf"\boxed{{{i}.0}}" for i in range(24)]
    rows = [{"answer": str(i if i % 3 else i + 1)} for i in range(24)]
    expected = [float(i % 3 > 0) for i in range(24)]
    assert threading.current_thread() is threading.main_thread()
    assert MATH.score(completions, rows) == expected
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda _: MATH.score(completions, rows), range(12))) == [expected] * 12


def test_no_check_has_to_load_what_a_worker_loads_at_its_start():
    """Imports would count as the processor time of the first check."""
    script = r"""
import sys
from curro.reward.math_check import check, warm
warm()
loaded = set(sys.modules)
assert check((r"\boxed{(a-b)(a+b)}", r"\boxed{a^2-b^2}")) == 1
assert check((r"\boxed{\sqrt{8}}", r"\boxed{2\sqrt{2}}")) == 1
assert check((r"\boxed{\{1, 2\}}", r"\boxed{\{2, 1\}}")) == 1
print(sorted(set(sys.modules) - loaded))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""Rewards by name, the user's own among them, and what `auto` chooses."""

from __future__ import annotations

import pytest

from curro.core.errors import ConfigError
from curro.data import PromptSet, load_prompts
from curro.reward import resolve_reward

ROW = {"prompt": "1+1", "answer": "2", "key": "k0"}


def test_a_function_of_the_users_own(user_module):
    name = user_module(
        "def f(completion, row):\n    return None if not completion else float(completion == row['answer'])\n"
    )
    for spec in (f"{name}:f", f"{name}.py:f"):
        reward = resolve_reward(spec)
        assert reward.name == spec
        assert reward.score(["2", "3", ""], [ROW] * 3) == [1.0, 0.0, None]


def test_a_function_of_an_installed_module():
    assert resolve_reward("numpy:array_equal").score(["2"], [ROW]) == [0.0]


def test_the_lab_s_own_scores():
    prompts = load_prompts("lab:chains/easy", limit=3)
    rows = list(prompts)
    for reward in (
        resolve_reward("auto", prompts),
        resolve_reward("lab", prompts),
        resolve_reward("lab:chains"),
    ):
        assert reward.name == "lab:chains"
        assert reward.score(["no", rows[1]["answer"], ""], rows) == [0.0, 1.0, 0.0]
    with pytest.raises(ConfigError, match=r"no family 'chess'; there are: .*chains"):
        resolve_reward("lab:chess")
    for others in (None, PromptSet([ROW])):
        with pytest.raises(
            ConfigError, match=r"^the reward 'lab' scores the lab's prompts: use data lab:FAMILY"
        ):
            resolve_reward("lab", others)


def test_auto_is_math_where_nothing_says_otherwise():
    assert resolve_reward().name == "math"
    assert resolve_reward("auto", PromptSet([ROW])).name == "math"
    assert resolve_reward("auto", PromptSet([{**ROW, "metadata": {"level": 3}}])).name == "math"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "maths",
            r"^no reward is called 'maths' \(did you mean 'math'\?\); there are: .*exact.*; your own is",
        ),
        ("", r"^no reward is called ''; there are: math, exact, .*, lab, auto; your own"),
        ("math+", "empty part"),
        ("2*", "empty part"),
        ("math+math", "two parts have the same name"),
        ("1.2.3*math", "is not a weight"),
        ("math+0.2*fromat", r"no reward is called 'fromat' \(did you mean 'format'\?\)"),
        ("math:deep=1", "reward 'math' has no option 'deep'"),
        ("x*math", r"no reward is called 'x\*math'"),
        ("overlong:limit=10", "needs limit and buffer; missing: buffer"),
        ("overlong:limit=10,buffer=11", "buffer is a number of tokens from 1 to limit = 10, not 11"),
        ("cosine:limit=0", "limit is a number of tokens from 1"),
        ("cosine:limit=ten", "limit is a whole number, not 'ten'"),
        ("cosine:limit=100,of=maths", "of is one of math, exact, not 'maths'"),
    ],
)
def test_mistakes(spec, message):
    with pytest.raises(ConfigError, match=message):
        resolve_reward(spec)


@pytest.mark.parametrize("spec", ["math", "exact", "auto"])
def test_data_without_answers(spec):
    unanswered = PromptSet([{"prompt": "1+1", "answer": None, "key": "k", "anwser": "2"}])
    with pytest.raises(ConfigError, match=r"no row has one: name its column with answer_column; .* anwser$"):
        resolve_reward(spec, unanswered)
    half = PromptSet([unanswered[0], ROW])
    assert resolve_reward(spec, half).score(["2", "2"], list(half)) == [None, 1.0]

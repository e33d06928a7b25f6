"""A reward called as TRL's trainers call it: lists by name, extras that are no columns, text or messages."""

from __future__ import annotations

import pytest

from curro.core.errors import RewardError
from curro.data import PromptSet
from curro.reward import Reward, resolve_reward, trl_reward

EXTRAS = {"trainer_state": object(), "log_extra": print, "log_metric": print, "completion_ids": [[1], [2]]}


def recording() -> tuple[Reward, list]:
    seen: list = []

    def verify(completions, rows):
        seen.extend(zip(completions, rows, strict=True))
        return [float(i) for i in range(len(rows))]

    return Reward("mine", verify), seen


def columns_of(prompts: PromptSet) -> dict:
    table = prompts.to_hf()
    return {name: list(table[name]) for name in table.column_names if name != "prompt"}


@pytest.mark.parametrize("conversational", [False, True])
def test_rows_come_back_as_they_were_loaded(conversational):
    text = [{"role": "user", "content": "1+1"}] if conversational else "1+1"
    rows = [
        {"prompt": text, "answer": "2", "key": "a", "metadata": {"x": 1}},
        {"prompt": text, "answer": None, "key": "b", "metadata": {"y": ["z", 3]}},
    ]
    completions = [[{"role": "assistant", "content": c}] if conversational else c for c in ("two", "deux")]
    reward, seen = recording()
    prompts = PromptSet(rows)
    function = trl_reward(reward)
    assert function(prompts=[text, text], completions=completions, **columns_of(prompts), **EXTRAS) == [
        0.0,
        1.0,
    ]
    assert seen == [("two", {**rows[0], "prompt_id": 0}), ("deux", {**rows[1], "prompt_id": 1})]


def test_the_last_message_counts():
    reward, seen = recording()
    call = {"role": "assistant", "content": None, "tool_calls": []}
    completions = [
        [call, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "so 4"}],
        [call],
        [],
    ]
    trl_reward(reward)(prompts=["p"] * 3, completions=completions, answer=["4"] * 3, key=list("abc"))
    assert [completion for completion, _ in seen] == ["so 4", "", ""]


def test_trl_logs_it_under_its_name_and_skips_none():
    function = trl_reward(resolve_reward("exact"))
    assert function.__name__ == "exact"
    scores = function(
        prompts=["p", "q"], completions=["1", "1"], answer=["1", None], key=["a", "b"], **EXTRAS
    )
    assert scores == [1.0, None]


@pytest.mark.parametrize("spec", ["format", "overlong:limit=4,buffer=2"])
def test_a_reward_of_a_length_without_ends_says_how_to_give_them(spec):
    columns = {"prompts": ["p"] * 2, "completions": ["1"] * 2, "answer": ["1"] * 2, "key": list("ab")}
    with pytest.raises(RewardError, match=r"has no 'completion_\w+': give `trl_reward` its `ends`, take"):
        trl_reward(resolve_reward(spec))(**columns, **EXTRAS)
    trl_reward(resolve_reward(spec), ends=[2])(**columns, **EXTRAS)


def test_columns_that_curro_did_not_make():
    with pytest.raises(
        RewardError, match=r"^reward 'exact': the data set has no column answer nor key: make it with"
    ):
        trl_reward(resolve_reward("exact"))(prompts=["p"], completions=["1"], solution=["1"])

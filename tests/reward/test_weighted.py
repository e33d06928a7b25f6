"""Sums of rewards: how they are written, what they give, and their parts."""

from __future__ import annotations

import asyncio

import pytest

from curro.data import PromptSet
from curro.reward import group_scorer, resolve_reward
from curro.reward.resolve import outcome_reward, part_names
from curro.rollout.engines.engine import Rollout
from curro.rollout.scoring import read_scores

ROW = {"prompt": "1+1", "answer": "2", "key": "k", "completion_cut": False}
UNANSWERED = {**ROW, "answer": None}
TEXTS = [r"<think>so</think>\boxed{2}", "2", "3"]


def test_a_weighted_sum_and_its_parts():
    reward = resolve_reward("exact + 0.2*format + -1*closed-thought")
    assert reward.weights == {"exact": 1.0, "format": 0.2, "closed-thought": -1.0}
    assert reward.score(TEXTS, [ROW] * 3) == pytest.approx([1.2, 1.04, 0.04])
    named = reward.named(TEXTS, [ROW] * 3)
    assert named == {"exact": [1, 1, 0], "format": [1, 0.2, 0.2], "closed-thought": [0, 0, 0]}
    assert asyncio.run(reward.named_async(TEXTS, [ROW] * 3)) == named


def test_a_completion_is_scored_where_every_part_scores_it():
    reward = resolve_reward("exact+format")
    assert reward.score(["2", "2"], [UNANSWERED, ROW]) == [None, 1.2]
    assert reward.named(["2", "2"], [UNANSWERED, ROW]) == {"exact": [None, 1.0], "format": [None, 0.2]}


def test_a_single_reward_with_a_weight():
    reward = resolve_reward("2*exact")
    assert (reward.name, reward.weights, reward.score(["2"], [ROW])) == ("2*exact", {"exact": 2.0}, [2.0])
    assert resolve_reward("exact").weights == {"exact": 1.0}
    assert resolve_reward("0.5 * exact").weights == {"exact": 0.5}
    assert outcome_reward(resolve_reward("0.5*exact")).score(["2"], [ROW]) == [1.0]
    assert outcome_reward(resolve_reward("0.5*language")).score(["2"], [ROW]) == [0.5]


@pytest.mark.parametrize(
    "spec",
    [
        "exact",
        "2*exact",
        "exact + 0.2*format",
        "overlong:limit=9,buffer=2+-1*lab:chains",
        "exact+0.5*curro.reward.text:closed_thought",
    ],
)
def test_the_names_of_the_parts_are_known_without_resolving_them(spec):
    assert part_names(spec) == list(resolve_reward(spec).weights)


def test_a_function_of_the_users_own_with_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tall.py").write_text("def reward(text, row, at=1):\n    return len(text) >= at\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *__import__("sys").path])
    reward = resolve_reward("exact+0.5*tall:reward:at=2")
    assert reward.weights == {"exact": 1.0, "tall:reward:at=2": 0.5}
    assert reward.score(["2", "22"], [ROW] * 2) == [1.0, 0.5]


def test_a_filler_is_told_the_parts_and_sums_them():
    prompts = PromptSet([{"prompt": "1+1", "answer": "2", "key": "k"}])
    reward = resolve_reward("exact+0.5*overlong:limit=4,buffer=2")
    rollouts = [Rollout("2", (7, 8, 9)), Rollout("3", (7,), finish="length")]
    scores = asyncio.run(group_scorer(reward, prompts)(0, rollouts))
    assert scores == {"exact": [1.0, 0.0], "overlong": [-0.5, 0.0]}
    import numpy as np

    rewards_G, _ = read_scores(scores, np.array([True, True]), reward.weights, "k")
    assert rewards_G.tolist() == [0.75, 0.0]

"""Hardest, most informative, regressed: by hand."""

import pytest

from curro.core.text import readable
from curro.runs.folder import RunFolder
from curro.runs.reader import LEARNABLE, SOLVED, UNSOLVED, read_history
from curro.runs.report.prompts import rankings


@pytest.fixture
def groups(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 9, "rollouts": 1, "seconds": 1})
    visits = {
        "never": [0, 0, 0],
        "once": [0],
        "fell": [0.5, 1, 0.25],
        "half": [0.5],
        "easy": [1],
        "up": [0, 0.75],
    }
    run.append_groups(
        {
            "step": step,
            "prompt": prompt,
            "key": key,
            "reason": 0,
            "mean": rate,
            "variance": rate * (1 - rate),
            "admitted": True,
        }
        for step in range(3)
        for prompt, (key, rates) in enumerate(visits.items())
        if step < len(rates)
        for rate in [rates[step]]
    )
    return read_history(run).groups


def test_states_and_visits(groups):
    assert groups.state.tolist()[:6] == [UNSOLVED, UNSOLVED, LEARNABLE, LEARNABLE, SOLVED, UNSOLVED]
    assert groups.latest.sum() == 6
    assert groups.rate[groups.latest].tolist() == [0, 0.5, 1, 0.75, 0, 0.25]


def test_rankings(groups):
    hardest, informative, regressed = rankings(groups, 10)
    assert [prompt.key for prompt in hardest.prompts] == ["never", "once"]
    assert hardest.prompts[0].visits == 3
    assert [prompt.key for prompt in informative.prompts] == ["half", "fell", "up"]
    (fell,) = regressed.prompts
    assert (fell.key, fell.best, fell.best_step, fell.rate, fell.last_step) == ("fell", 1, 1, 0.25, 2)
    assert [len(ranking.prompts) for ranking in rankings(groups, 1)] == [1, 1, 1]


def test_a_group_without_a_reward_is_no_visit(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 8, "seconds": 1})
    group = {"step": 1, "prompt": 0, "key": "a", "reason": 0, "admitted": False}
    run.append_groups([group | {"mean": float("nan"), "variance": 0.0}])
    assert len(read_history(run).groups.prompt) == 0
    assert [ranking.prompts for ranking in rankings(read_history(run).groups, 3)] == [[], [], []]


def test_a_key_is_cut_and_cannot_move_the_cursor():
    assert readable("train-1", 10) == "train-1"
    assert readable("x" * 11, 10) == "x" * 9 + "…"
    assert readable("a\x1b[2J\n\u202e\ud800", 40) == "a\\x1b[2J\\n\\u202e\\ud800"

"""One prompt in the terminal: its visits, its rollouts, and nothing that steers the terminal."""

import io

import pytest
from rich.console import Console

from curro.core.errors import RunError
from curro.runs.folder import RunFolder
from curro.runs.reader import read_history
from curro.runs.report.inspect import inspect_prompt
from curro.runs.report.prompts import PromptHistory, kept_rollouts

HOSTILE = "[red]\x1b[2J\u202e\nsecond line\r\n\x07" + "x" * 1_000_000


@pytest.fixture
def run(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 8})
    group = {"key": "k\x1b[31m", "reason": 1, "admitted": True, "source": "math", "rollouts": 2}
    run.append_groups(
        [
            group | {"step": 1, "prompt": 3, "mean": 0.0, "variance": 0.0, "predicted_rate": 0.25},
            group | {"step": 2, "prompt": 5, "mean": 1.0, "variance": 0.0, "key": "3"},
            group | {"step": 4, "prompt": 3, "mean": 0.5, "variance": 0.25, "admitted": False},
        ]
    )
    rollouts = [{"reward": 0.0, "text": HOSTILE, "tokens": 7, "cut": True}, {"reward": 1.0, "text": "right"}]
    run.append_rollouts([{"step": 4, "prompt": 3, "text": "What?\x1b[31m", "rollouts": rollouts}])
    return run


def said(run, prompt, n=10):
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False)
    inspect_prompt(run, prompt, n, console)
    return console.file.getvalue()


def test_visits_and_rollouts(run):
    text = said(run, "k\x1b[31m")
    assert "k\\x1b[31m (prompt 3, from math)" in text
    assert "2 visits, the latest first" in text
    rows = [line for line in text.splitlines() if "exploration" in line]
    assert [row.split()[1] for row in rows] == ["4", "1"]
    assert "no" in rows[0]
    assert "rate 0.25" in rows[1]
    assert "step 4, reward 0, 7 tokens, cut at the limit" in text
    assert "reward 1" in text


def test_nothing_steers_the_terminal(run):
    text = said(run, "k\x1b[31m")
    assert not set("\x1b\u202e\x07\r") & set(text)
    assert "[red]\\x1b[2J\\u202e" in text
    assert "second line" in text
    assert "more characters" in text
    assert len(text) < 20_000


def test_a_key_wins_over_a_number(run):
    assert "(prompt 5, from math)" in said(run, "3")
    assert "(prompt 5, from math)" in said(run, "5")


def test_a_prompt_without_rollouts_and_one_that_was_never_drawn(run):
    assert "--keep-rollouts" in said(run, "5")
    for prompt in ("other", "7"):
        with pytest.raises(RunError, match=f"has not drawn a prompt '{prompt}'"):
            said(run, prompt)


def test_each_visit_of_a_step_has_its_own_rollouts(tmp_path):
    run = RunFolder.create(tmp_path / "run", {})
    run.append_metrics({"step": 1, "rollouts": 4})
    group = {"step": 1, "prompt": 0, "key": "k", "reason": 1, "admitted": True, "rollouts": 2}
    run.append_groups(
        group | {"ticket": ticket, "mean": mean, "variance": 0.0}
        for ticket, mean in ((5, 0.0), (6, None), (7, 1.0))
    )
    run.append_rollouts(
        {
            "step": 1,
            "prompt": 0,
            "ticket": ticket,
            "text": "?",
            "rollouts": [{"reward": reward, "text": text}],
        }
        for ticket, reward, text in ((5, 0.0, "of five"), (6, None, "of six"), (7, 1.0, "of seven"))
    )
    visits = PromptHistory.of(read_history(run).groups, 0, kept_rollouts(run.rollouts_file, [0])).visits
    assert [(visit.rate, visit.rollouts[0].text) for visit in visits] == [(1, "of seven"), (0, "of five")]

"""A reward function in processes of its own: what it does to its process does nothing to this one."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time

import pytest

from curro.core.errors import ConfigError, RewardError
from curro.reward import resolve_reward
from curro.reward.workers.pool import WorkerLimits

SOURCE = """
import os, sys, time
calls = 0

def reward(completion, row, add=0.0):
    global calls
    calls += 1
    if completion == "exit": sys.exit(0)
    if completion == "raise": raise ValueError("no")
    if completion == "die": os._exit(0)
    if completion == "kill": os.kill(os.getpid(), 9)
    if completion == "hang":
        open(f"{os.environ['HANGS']}/{os.getpid()}", "w").close()
        time.sleep(3600)
    if completion == "fork": os.fork()
    if completion == "leave": (os.fork() or time.sleep(60))
    if completion == "big": return float(len(bytearray(8 << 30)))
    if completion == "none": return None
    if completion == "text": return "good"
    if completion == "count": return calls
    if completion == "pid": return os.getpid()
    return row["value"] + add
"""
ROW = {"key": "first", "prompt": "?", "value": 0.5, "other": {1, 2}}


@pytest.fixture
def score(tmp_path, monkeypatch):
    """Score completions of one row."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SOURCE)

    def made(spec="mine:reward", **limits):
        reward = resolve_reward(spec, limits=WorkerLimits(**{"gigabytes": 4.0, **limits}))
        return lambda *completions: reward.score(completions, [ROW] * len(completions))

    return made


def test_scores_come_back_in_order(score):
    scores = score(workers=2)
    assert scores("a", "none", "b") == [0.5, None, 0.5]
    assert score("mine:reward:add=2")("a") == [2.5]
    assert score("0.5*mine:reward")("a") == [0.25]


def test_one_process_keeps_its_state_and_several_share_the_work(score):
    one = score()
    assert one("a", "count", "count") == [0.5, 2.0, 3.0]
    assert one("pid") != [os.getpid()]


@pytest.mark.usefixtures("hangs_end_by_themselves")
@pytest.mark.parametrize(
    ("completion", "why"),
    [
        ("die", "its process ended with exit status 0"),
        ("kill", "its process ended with SIGKILL"),
        ("hang", "it took longer than 600 s"),
        ("big", "it needed more than 4 GB of memory"),
    ],
)
def test_a_completion_that_ends_the_process_is_not_scored(score, completion, why):
    scores = score(seconds=600.0)
    with pytest.warns(RuntimeWarning, match=f"reward 'mine:reward' was ended for the prompt 'first': {why}"):
        assert scores("a", completion, "b") == [0.5, None, 0.5]
    assert scores("a", completion) == [0.5, None]  # it is said once
    with pytest.raises(RewardError, match=f"{why}; the same happened to all 2 completions"):
        scores(completion, completion)


@pytest.mark.parametrize(
    ("completion", "why"), [("exit", "SystemExit: 0"), ("raise", "ValueError: no"), ("text", "gave 'good'")]
)
def test_errors_of_the_function_are_errors(score, completion, why):
    with pytest.raises(RewardError, match=f"for the prompt 'first'.*{why}|{why} for the prompt 'first'"):
        score()(completion)


@pytest.fixture
def lined(tmp_path, monkeypatch):
    """A file with a reward that fails in its line 4; its module is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "lined.py"
    file.write_text("import json\n\ndef reward(completion, row):\n    json.loads(completion)\n")
    yield file
    sys.modules.pop(file.stem, None)


@pytest.mark.parametrize("limits", [None, WorkerLimits()], ids=["here", "in a worker"])
def test_an_error_names_the_line_of_the_function_and_shows_the_prompt(lined, limits):
    """The line is the user's own, not that of the library which the user called."""
    reward = resolve_reward(f"./{lined.name}:reward", limits=limits)
    for prompt in ("What is 2 + 2?", [{"role": "user", "content": "What is 2 + 2?"}]):
        with pytest.raises(RewardError) as raised:
            reward.score(["{"], [{"key": "first", "prompt": prompt}])
        assert str(raised.value) == (
            f"reward './{lined.name}:reward' failed for the prompt 'first' with the text 'What is 2 + 2?': "
            "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) "
            f"({lined}:4, in reward)"
        )


def test_a_forked_child_answers_nothing(score):
    scores = score()
    assert scores("fork", "a", "fork", "count") == [0.5, 0.5, 0.5, 4.0]


def test_what_the_function_leaves_running_ends_with_its_process(score):
    scores = score()
    assert scores("leave") == [0.5]
    group = int(scores("pid")[0])
    os.killpg(group, 0)
    del scores
    gc.collect()
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("something still runs")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def other(): ...", "has no 'reward'; it has: other"),
        ("import nowhere", "importing 'wrong' failed: No module named 'nowhere'"),
        ("import sys; sys.exit(3)", "importing its module failed: SystemExit: 3"),
        ("import os; os._exit(3)", "ended as it started, with exit status 3"),
    ],
)
def test_a_module_that_cannot_be_used(tmp_path, score, source, why):
    (tmp_path / "wrong.py").write_text(source)
    with pytest.raises(ConfigError, match=why):
        score("wrong:reward")


def test_in_this_process_too_nothing_ends_or_doubles_it(user_module):
    reward = resolve_reward(f"{user_module(SOURCE)}:reward")
    with pytest.raises(RewardError, match="SystemExit: 0"):
        reward.score(["exit"], [ROW])
    assert reward.score(["a"], [ROW]) == [0.5]


FORMS = """
def ours(completion, row): return float(completion == row["answer"])
def with_option(completion, row, *, weight=1.0): return weight
def trl(completions, answer, **kwargs): return [float(c == a) for c, a in zip(completions, answer)]
def trl_strict(prompts, completions, answer):
    return [float(c[0]["content"] == a) for c, a in zip(completions, answer)]
async def trl_awaited(completions, answer): return (c == a for c, a in zip(completions, answer))
class Asked:
    async def __call__(self, completion, row): return float(completion == row["answer"])
asked = Asked()
class Silent(Exception):
    def __str__(self): raise RuntimeError
def silent(completion, row): raise Silent
def long(completion, row): raise ValueError("x" * 10**6)
def trl_other_column(completions, truth): return [1.0]
def trl_too_many(completions, **kwargs): return [1.0, 0.0]
async def awaited(completion, row): return float(completion == row["answer"])
def one(completion): return 1.0
def answer_alone(completion, answer): return float(completion == answer)
def right_answer(completion, correct_answer): return float(str(correct_answer) in completion)
def swapped(prompt, completion): return float("2" in completion)
def verls(data_source, solution_str, ground_truth, extra_info=None): return 1.0
"""


ANSWERED = {"prompt": "?", "answer": "2", "key": "k"}


@pytest.mark.parametrize("limits", [None, WorkerLimits()])
def test_a_function_of_trls_form_is_taken(user_module, limits):
    name = user_module(FORMS)
    chat = {**ANSWERED, "prompt": [{"role": "user", "content": "?"}]}
    plain = ("ours", "trl", "trl_awaited", "awaited", "asked")
    for form, row in (*((form, ANSWERED) for form in plain), ("trl_strict", chat)):
        assert resolve_reward(f"{name}:{form}", limits=limits).score(["2", "3"], [row] * 2) == [1.0, 0.0]
    assert resolve_reward(f"{name}:with_option:weight=3", limits=limits).score(["2"], [ANSWERED]) == [3.0]
    data = {**ANSWERED, "completions": "3", "prompts": "4"}
    assert resolve_reward(f"{name}:trl", limits=limits).score(["2"], [data]) == [1.0]
    with pytest.raises(RewardError, match="ValueError: it returned 2 scores for 1 completion"):
        resolve_reward(f"{name}:trl_too_many", limits=limits).score(["2", "3"], [ANSWERED] * 2)
    with pytest.raises(RewardError, match="'truth'; the row has the columns prompt, answer"):
        resolve_reward(f"{name}:trl_other_column", limits=limits).score(["2"], [ANSWERED])


@pytest.mark.parametrize("limits", [None, WorkerLimits()])
def test_an_error_whose_text_fails_or_is_endless_is_an_error_too(user_module, limits):
    name = user_module(FORMS)
    with pytest.raises(RewardError, match="Silent: its message cannot be read"):
        resolve_reward(f"{name}:silent", limits=limits).score(["2"], [ANSWERED])
    with pytest.raises(RewardError, match=r"ValueError: x{10000} ") as raised:
        resolve_reward(f"{name}:long", limits=limits).score(["2"], [ANSWERED])
    assert len(str(raised.value)) < 11_000


def test_an_asynchronous_reward_scores_where_an_event_loop_runs(user_module):
    name = user_module(FORMS)

    async def cell():
        return resolve_reward(f"{name}:awaited").score(["2", "3"], [ANSWERED] * 2)

    assert asyncio.run(cell()) == [1.0, 0.0]


@pytest.mark.parametrize("limits", [None, WorkerLimits()])
@pytest.mark.parametrize(
    ("form", "message"),
    [
        *(
            (form, r"f\(completion, row\)")
            for form in ("one", "answer_alone", "right_answer", "swapped", "verls")
        ),
        ("Asked", "is a class"),
    ],
)
def test_a_function_that_cannot_be_called_is_said_at_once(user_module, limits, form, message):
    name = user_module(FORMS)
    with pytest.raises(ConfigError, match=rf"^reward '{name}:{form}'.*{message}"):
        resolve_reward(f"{name}:{form}", limits=limits)

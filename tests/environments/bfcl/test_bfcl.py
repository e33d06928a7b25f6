"""Episodes by hand: what is executed, what is shown, what is shared (nothing), and hostile calls."""

from __future__ import annotations

import decimal
import json

import mpmath
import pytest

from curro.data import load_prompts
from curro.environments import resolve_environment
from curro.environments.bfcl import Bfcl, tasks
from curro.errors import ConfigError, CurroError
from curro.reward import resolve_reward

FIRST = tasks.rows("base", "train", 1)[0]
TASK = {
    "requests": ["Make a folder.", "Thank you."],
    "answer": [["mkdir(dir_name='new')", "ls()"], ["cd(folder='new')"]],
    "classes": ["GorillaFileSystem", "MathAPI"],
    "config": {"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {}}}}},
    "long_context": False,
}
ROW = {"prompt": "p", "answer": None, "key": "k", "task": json.dumps(TASK)}


def test_rows_have_what_the_model_and_the_environment_need():
    system, request = FIRST["prompt"]
    assert (system["role"], request["role"]) == ("system", "user")
    assert '"name": "mkdir"' in system["content"]
    assert FIRST["key"].startswith("multi_turn_base_")
    train, test = (tasks.rows("base", split, None) for split in ("train", "test"))
    assert not {row["key"] for row in train} & {row["key"] for row in test}
    assert 25 <= len(test) <= 60
    assert len(train) + len(test) == 200


def test_functions_held_back_are_told_later():
    row = next(
        row for row in tasks.rows("miss_func", "train", None) if row["key"] == "multi_turn_miss_func_0"
    )
    request = json.loads(row["task"])["requests"][3]
    assert '"name": "sort"' not in row["prompt"][0]["content"]
    assert request.startswith("More functions are available now:")
    assert '"name": "sort"' in request


def test_an_episode_turn_by_turn():
    episode = Bfcl(partial=True).start(ROW, 0)
    observed = json.loads(episode.step("[mkdir(dir_name='new'), ls()]"))
    assert json.loads(observed[1]) == {"current_directory_content": ["new"]}
    assert episode.step("It is there.") == "Thank you."
    assert episode.step("You are welcome.") is None
    assert episode.right == [True, False]
    assert episode.reward() == 0.5


def test_all_turns_or_nothing():
    for last, reward in (("cd(folder='new')", 1.0), ("pwd()", 0.0)):
        episode = Bfcl().start(ROW, 0)
        for action in ("mkdir(dir_name='new')", "ls()", "Done.", last, "Done."):
            episode.step(action)
        assert episode.reward() == reward
    assert Bfcl().start(ROW, 0).reward() == 0.0


def test_rollouts_share_nothing():
    one, other = (Bfcl().start(ROW, 0) for _ in range(2))
    one.step("mkdir(dir_name='mine')")
    assert json.loads(json.loads(other.step("ls()"))[0]) == {"current_directory_content": []}


@pytest.mark.parametrize(
    "action",
    [
        "_load_scenario(scenario={})",
        "__class__()",
        "eval('1')",
        "exit()",
        "ls(a=__import__('os').system('touch /tmp/x'))",
        "root._add_file(file_name='x')",
        "power(base=9, exponent=999999999)",
        "square_root(number=2, precision=999999999)",
        "logarithm(value=2, base=10, precision=999999999)",
        "power(99999999999, 1000)",
        "mkdir()",
        "mkdir(1, 2, 3)",
        "cd(folder=[1, {'a': None}])",
    ],
)
def test_what_must_not_run_is_told_or_ends_the_turn(action):
    episode = Bfcl().start(ROW, 0)
    observed = episode.step(f"[{action}]")
    if observed != "Thank you.":
        (told,) = json.loads(observed)
        assert "error" in told.lower() or "no such" in told.lower()


def test_the_precision_of_the_process_stays():
    before = mpmath.mp.dps, decimal.getcontext().prec
    episode = Bfcl().start(ROW, 0)
    episode.step("[logarithm(value=2, base=10, precision=40), square_root(number=2, precision=50)]")
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


def test_more_steps_than_a_turn_has_end_the_episode():
    episode = Bfcl().start(ROW, 0)
    assert all(episode.step("pwd()") is not None for _ in range(20))
    assert episode.step("pwd()") is None
    assert episode.reward() == 0.0


def test_by_name():
    prompts = load_prompts("bfcl:base", limit=2)
    assert isinstance(resolve_environment(None, prompts), Bfcl)
    environment = resolve_environment("bfcl:partial=true,turn_tokens=64", prompts)
    assert (environment.partial, environment.turn_tokens) == (True, 64)
    assert resolve_reward("auto", prompts).name == "bfcl:base"
    assert resolve_reward("auto", prompts).score(["x"], [{"episode_reward": 0.5}]) == [0.5]
    with pytest.raises(ConfigError, match="played turn by turn"):
        resolve_reward("auto", prompts).score(["x"], [dict(prompts[0])])
    with pytest.raises(CurroError, match="no multi-turn category 'bass'"):
        load_prompts("bfcl:bass")
    with pytest.raises(ConfigError, match="'k' is no task of BFCL's"):
        Bfcl().start({"prompt": "p", "key": "k"}, 0)

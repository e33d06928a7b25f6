"""Episodes by hand: what is executed, what is shown, what is shared (nothing), and hostile calls."""

from __future__ import annotations

import decimal
import json

import mpmath
import pytest

from curro.contrib.bfcl import Bfcl, tasks
from curro.core.errors import ConfigError, CurroError
from curro.data import load_prompts
from curro.reward import resolve_reward
from curro.reward.environments import resolve_environment

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


def test_all_categories_stand_one_after_the_other_and_share_the_split():
    every = {split: tasks.rows("all", split, None) for split in ("train", "test")}
    parts = [tasks.rows(name, "train", None) for name in tasks.CATEGORIES]
    assert every["train"] == [row for part in parts for row in part]
    numbers = {split: {row["key"].rpartition("_")[2] for row in rows} for split, rows in every.items()}
    assert not numbers["train"] & numbers["test"]
    assert len(every["train"]) + len(every["test"]) == 4 * 200 + COMPOSITES
    with pytest.raises(
        ConfigError, match=r"no multi-turn category 'most'; there are: base, .*composite, all"
    ):
        tasks.rows("most", "train", 1)
    with pytest.raises(ConfigError, match="only 'summary' can stand, not 'json'"):
        tasks.rows("base/json", "train", 1)


COMPOSITES = 166
"""Of 200: of the others a change touches more than the turn that it is about."""


def turns(*texts):
    return [[{"role": "user", "content": text}] if text else [] for text in texts]


def entry(number, question, answer, **more):
    return {"id": f"multi_turn_x_{number}", "question": turns(*question), **more}, answer


SAME = {"involved_classes": ["MathAPI"], "initial_config": {}}
PLAIN = entry(7, "ab", [["a()"], ["b()"]], **SAME)
UNSAID = entry(7, ["a", "b?", "the b"], [["a()"], [], ["b()"]], **SAME)


def held_back(at, question):
    return entry(7, question, [], **SAME, missed_function={str(at): ["f"]})


@pytest.mark.parametrize(
    ("held", "asked", "solved", "revealed"),
    [
        (held_back(1, ["a", "", "b"]), ["a", "", "b?", "the b"], [[], ["a()"], [], ["b()"]], 1),
        (held_back(2, ["a", "b", ""]), ["a", "b?", "the b", ""], [["a()"], [], [], ["b()"]], 3),
    ],
    ids=["in another turn", "in the same turn"],
)
def test_a_composite_has_both_changes(held, asked, solved, revealed):
    made, answer = tasks.composite(PLAIN, held, UNSAID)
    assert made["question"] == turns(*asked)
    assert answer == solved
    assert made["missed_function"] == {str(revealed): ["f"]}
    assert made["id"] == "multi_turn_composite_7"


@pytest.mark.parametrize(
    ("held", "unsaid"),
    [
        (held_back(1, ["other", "", "b"]), UNSAID),
        (held_back(1, ["a", "", "b"]), entry(7, ["a", "b?", "c", "the b"], [], **SAME)),
        (held_back(1, ["a", "", "b"]), entry(7, ["a?", "the a", "other"], [], **SAME)),
        (held_back(1, ["a", "", "b"]), entry(7, ["a", "b", "more"], [], **SAME)),
        (held_back(1, ["a", "", "b"]), entry(7, ["a", "b?", "b"], [], **SAME | {"involved_classes": []})),
    ],
    ids=["another request", "two turns more", "a change elsewhere", "nothing unsaid", "other functions"],
)
def test_changes_that_do_not_fit_together_make_no_composite(held, unsaid):
    assert tasks.composite(PLAIN, held, unsaid) is None


def test_every_composite_is_solved_by_its_answer_with_a_long_context():
    rows = [row for split in ("train", "test") for row in tasks.rows("composite", split, None)]
    (row,) = [row for row in rows if row["key"] == "multi_turn_composite_1"]
    requests = json.loads(row["task"])["requests"]
    assert len(requests) == 6  # 4 requests, a function and a parameter later
    assert [i for i, text in enumerate(requests) if text.startswith("More functions")] == [2]
    assert '"name": "mv"' not in row["prompt"][0]["content"]
    for row in rows:
        task, episode = json.loads(row["task"]), Bfcl(turns=400).start(row, 0)
        assert task["long_context"]
        for calls in task["answer"]:
            for call in calls:
                episode.step(f"[{call}]")
            episode.step("Done.")
        assert episode.reward() == 1.0, row["key"]


def test_functions_in_sentences():
    (plain,), (told,) = (tasks.rows(name, "train", 1) for name in ("base", "base/summary"))
    system = told["prompt"][0]["content"]
    assert "as JSON" not in system
    assert (
        "\ncd(folder): Change the current working directory to the specified folder.\n"
        "folder is a text: The folder of the directory to change to. You can only change one folder level at "
        "a time.\nIt returns current_working_directory.\n"
    ) in system
    assert {**plain, "prompt": None} == {**told, "prompt": None}
    held = next(
        row for row in tasks.rows("miss_func/summary", "train", None) if row["key"].endswith("func_0")
    )
    assert "\nsort(file_name): " in json.loads(held["task"])["requests"][3]


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

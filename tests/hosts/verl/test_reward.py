"""curro's rewards in verl's own reward managers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from setup_run import configuration
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

from curro.core.errors import ConfigError, RewardError
from curro.hosts.verl.reward import check_rows, compute_score
from curro.hosts.verl.settings import reward_parts
from curro.hosts.verl.trainer import CurriculumTrainerSync
from curro.lab import load

LIMIT = 8


@pytest.fixture(scope="module")
def tokenizer():
    return load("chains")[1]


def manager_of(folder, tokenizer, reward: str, name: str = "curro"):
    """The reward manager that verl makes of its configuration."""
    config = configuration(
        folder,
        "reward.custom_reward_function.path=pkg://curro.hosts.verl.reward",
        f"+reward.custom_reward_function.reward_kwargs.reward='{reward}'",
        f"reward.reward_manager.name={name}",
        f"data.max_response_length={LIMIT}",
    )
    return load_reward_manager(config, tokenizer)


def rollout(ids: list[int], answer: str, infos: dict | None = None, **row: Any) -> DataProto:
    """A rollout as verl's agent loop passes it: three tokens of prompt, the response padded to the limit."""
    padding = LIMIT - len(ids)
    responses = torch.tensor([ids + [0] * padding])
    mask = torch.tensor([[1] * (3 + len(ids)) + [0] * padding])
    columns = {
        "data_source": np.array(["sums"], object),
        "reward_model": np.array([{"ground_truth": answer}], object),
    }
    if infos is not None:
        columns["extra_info"] = np.array([infos], object)
    columns |= {name: np.array([value]) for name, value in row.items()}
    return DataProto.from_dict({"responses": responses, "attention_mask": mask}, columns)


def scored(manager, ids, answer="40", infos=None, **row):
    return manager.loop.run_until_complete(manager.run_single(rollout(ids, answer, infos, **row)))


def test_the_reward_knows_the_row(tmp_path, tokenizer):
    """The options of a choice are in the prompt, the name of a tested function is a column."""
    ids = tokenizer("40", add_special_tokens=False)["input_ids"]
    prompt = [{"role": "user", "content": "6 * 7 - 2?\n(A) 30\n(B) 40\n(C) 50"}]
    for reward in ("math", "exact"):
        manager = manager_of(tmp_path, tokenizer, reward)
        assert scored(manager, ids, "B", raw_prompt=prompt)["reward_score"] == 1.0
        assert scored(manager, ids, "C", raw_prompt=prompt)["reward_score"] == 0.0
    (tmp_path / "own.py").write_text("def score(completion, row):\n    return len(row['lengths'])\n")
    manager = manager_of(tmp_path, tokenizer, f"{tmp_path}/own.py:score")
    assert scored(manager, ids, lengths=[1, 2, 3])["reward_score"] == 3.0


def test_the_row_has_no_column_that_verl_adds(tmp_path, tokenizer):
    """The fields of tools may hold tensors, which no worker of a reward reads."""
    (tmp_path / "adds.py").write_text(
        "def score(completion, row):\n"
        "    return float('tool_extra_fields' in row) + 2 * len(row['lengths'])\n"
    )
    manager = manager_of(tmp_path, tokenizer, f"{tmp_path}/adds.py:score")
    ids = tokenizer("40", add_special_tokens=False)["input_ids"]
    added = {"tool_extra_fields": {"pixels": np.zeros(2)}, "lengths": [1]}
    assert scored(manager, ids, **added)["reward_score"] == 2.0


def test_the_trainer_chooses_the_manager_for_a_reward_of_curros(tmp_path):
    curros = "reward.custom_reward_function.path=pkg://curro.hosts.verl.reward"
    for lines, wanted in (
        ([curros], "curro"),
        ([curros, "reward.reward_manager.name=dapo"], "dapo"),
        ([], "naive"),
    ):
        trainer = CurriculumTrainerSync(configuration(tmp_path, *lines))
        assert trainer.config.reward.reward_manager.name == wanted


def test_the_cosine_reward_is_that_of_the_length(tmp_path, tokenizer):
    manager = manager_of(tmp_path, tokenizer, "cosine:limit=8,of=exact")
    digits = tokenizer("40", add_special_tokens=False)["input_ids"]
    infos = {"index": 3}
    # three of eight tokens with the end of the sequence: .5 + .5 (1 + cos(3 pi / 8)) / 2 where it is right
    right = scored(manager, [*digits, tokenizer.eos_token_id], infos=infos)
    assert right["reward_score"] == pytest.approx(0.5 + 0.25 * (1 + math.cos(3 * math.pi / 8)))
    # and -.5 - .5 (1 + cos(2 pi / 8)) / 2 for two tokens where it is wrong
    wrong = scored(manager, digits, "41", infos=infos)
    assert wrong["reward_score"] == pytest.approx(-0.5 - 0.25 * (1 + math.cos(2 * math.pi / 8)))
    assert "completion_tokens" not in infos, "the prompt's own dict is shared by its rollouts"


@pytest.mark.parametrize("infos", [None, {}])
def test_parts_of_a_weighted_sum_stand_beside_the_score(tmp_path, tokenizer, infos):
    manager = manager_of(tmp_path, tokenizer, "exact+0.5*cosine:limit=8,of=exact")
    digits = tokenizer("40", add_special_tokens=False)["input_ids"]
    result = scored(manager, digits, infos=infos)
    cosine = 0.5 + 0.25 * (1 + math.cos(2 * math.pi / 8))
    assert result["reward_extra_info"] == {
        "score": pytest.approx(1 + 0.5 * cosine), "exact": 1.0, "cosine": pytest.approx(cosine),
        "curro_scored": 1.0,
    }  # fmt: skip
    assert result["reward_score"] == result["reward_extra_info"]["score"]


@pytest.mark.parametrize(
    ("digits", "is_ended", "score"),
    [(LIMIT, False, 0.0), (LIMIT - 1, True, 0.2), (3, False, 0.2), (0, True, 0.2)],
    ids=["cut at the limit", "ended at the limit", "stopped by a stop string", "empty"],
)
def test_the_format_reward_knows_which_responses_were_cut(tmp_path, tokenizer, digits, is_ended, score):
    """Text without tags keeps one of the five rules of the format if it was not cut, and none if it was."""
    manager = manager_of(tmp_path, tokenizer, "format")
    digit = tokenizer("4", add_special_tokens=False)["input_ids"]
    ids = digit * digits + [tokenizer.eos_token_id] * is_ended
    assert scored(manager, ids)["reward_score"] == pytest.approx(score)


def test_with_verls_own_manager_a_reward_of_the_length_says_what_to_set(tmp_path, tokenizer):
    manager = manager_of(tmp_path, tokenizer, "math+0.2*format", name="naive")
    with pytest.raises(RewardError, match=r"'math\+0.2\*format' .* set reward.reward_manager.name=curro"):
        scored(manager, tokenizer("40")["input_ids"])


def test_a_missing_score_is_marked(tmp_path, tokenizer):
    folder = tmp_path / "rewards"
    folder.mkdir()
    (folder / "none.py").write_text("def score(completion, row):\n    return None\n")
    (folder / "half.py").write_text("def score(completion, row):\n    return 0.5\n")
    none, half = f"{folder}/none.py:score", f"{folder}/half.py:score"
    missing = scored(manager_of(tmp_path, tokenizer, none), [4], infos={})
    assert missing["reward_score"] == 0.0
    assert missing["reward_extra_info"] == {"score": 0.0, "acc": 0.0, "curro_scored": 0.0}
    with pytest.warns(RuntimeWarning, match="prompt 'sums 7' cannot be read: .* they test nothing"):
        unsound = compute_score("sums", "40", "x = 1", {"index": 7}, reward="code")
    assert unsound == {"score": 0.0, "acc": 0.0, "curro_scored": 0.0}
    partly = compute_score("sums", "40", "40", reward=f"{none}+2*{half}")
    assert (partly["score"], partly["curro_scored"]) == (0.0, 0.0)
    whole = compute_score("sums", "40", "40", reward=f"exact+2*{half}")
    assert (whole["score"], whole["curro_scored"]) == (2.0, 1.0)


SHAPED, EXACT, UNVERIFIED = "math+0.2*format", {"b": "exact"}, {"b": "closed-thought+language"}


@pytest.mark.parametrize(
    ("reward", "by_source", "sources", "parts"),
    [
        ("math", None, "ab", ["acc"]),
        (SHAPED, None, "ab", ["math", "format"]),
        (SHAPED, EXACT, "aaba", ["math", "format", "acc"]),
        (SHAPED, EXACT, "a", ["math", "format"]),  # b only validates
        (SHAPED, EXACT, "b", ["acc"]),
        (SHAPED, UNVERIFIED, "ab", []),
        ("math", UNVERIFIED, "b", ["closed-thought", "language"]),
    ],
)
def test_the_signal_has_a_part_of_every_sources_reward(tmp_path, reward, by_source, sources, parts):
    kwargs = "reward.custom_reward_function.reward_kwargs"
    lines = [
        "reward.custom_reward_function.path=pkg://curro.hosts.verl.reward",
        f"+{kwargs}.reward='{reward}'",
    ]
    lines += [f"+{kwargs}.by_source.{name}='{other}'" for name, other in (by_source or {}).items()]
    assert reward_parts(configuration(tmp_path, *lines), list(sources)) == parts


def verl_rows(answers):
    return [
        {"prompt": f"question {i}", "data_source": "sums", "reward_model": {"ground_truth": answer}}
        for i, answer in enumerate(answers)
    ]


OWN = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(ground_truth in solution_str and ground_truth < "x")}
"""


def test_rows_are_checked_before_the_run(tmp_path):
    path = "reward.custom_reward_function.path="
    curros = [f"{path}pkg://curro.hosts.verl.reward", "+reward.custom_reward_function.reward_kwargs.reward="]
    said: list[str] = []
    broken = verl_rows(["[]"] * 90 + ["[broken"] * 10)
    with pytest.raises(ConfigError, match=r"10 of 100 rows, such as row 90 \(sums\).*curro.no_check=true"):
        check_rows(configuration(tmp_path, curros[0], curros[1] + "function-calls"), broken, said.append)
    numbers = verl_rows([str(i) for i in range(90)] + [f"x{i}" for i in range(10)])
    check_rows(configuration(tmp_path, curros[0], curros[1] + "exact"), numbers, said.append)
    explained = [row | {"answer": f"I think, {row['prompt']}"} for row in numbers]
    check_rows(configuration(tmp_path, curros[0], curros[1] + "exact"), explained, said.append)
    columns = [row | {"answer": "[]"} for row in broken]
    with pytest.raises(ConfigError, match=r"10 of 100 rows"):
        check_rows(configuration(tmp_path, curros[0], curros[1] + "function-calls"), columns, said.append)
    assert said == []
    check_rows(configuration(tmp_path), numbers, said.append)
    assert "raises NotImplementedError" in said.pop()
    (tmp_path / "own.py").write_text(OWN)
    check_rows(configuration(tmp_path, f"{path}{tmp_path}/own.py"), numbers, said.append)
    assert "reward 'compute_score' on 100 rows: does not fit 10 rows, such as row 90" in said.pop()

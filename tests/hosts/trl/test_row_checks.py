"""Rows are scored with their own answers before TRL loads the model."""

from __future__ import annotations

import pytest
from datasets import Dataset
from tests.hosts.trl.setup import trainer

import curro
from curro.reward import resolve_reward, trl_reward

NUMBERS = [str(i) for i in range(55)]
MIXED = [*NUMBERS, "five", "1/2", "x^2", "seven", "2:3"]


def rows(answers, **columns):
    return Dataset.from_dict(
        {"prompt": [f"question {i}" for i in range(len(answers))], "answer": answers, **columns}
    )


def never_called(completions, **columns):
    raise AssertionError


def test_a_reward_that_fits_is_said_nothing_of_and_one_of_the_users_own_is_not_called(tmp_path, caplog):
    curros = trl_reward(resolve_reward("exact"))
    trainer(tmp_path, reward_funcs=[curros, never_called], train_dataset=rows(MIXED, key=MIXED))
    assert [line for line in caplog.messages if "no_check" in line] == []


def test_curros_own_reward_refuses_rows_wherever_they_stand(tmp_path):
    answers = ["[]"] * 90 + ["[broken"] * 10
    options = {
        "reward_funcs": trl_reward(resolve_reward("function-calls")),
        "train_dataset": rows(answers, key=[str(i) for i in range(100)]),
    }
    with pytest.raises(
        curro.ConfigError, match=r"does not fit 10 of 100 rows, such as row 90.*no_check=True"
    ):
        trainer(tmp_path, **options)
    trainer(tmp_path, **options, no_check=True)
    options["train_dataset"] = rows(answers)
    with pytest.raises(curro.RewardError, match="no column key"):
        trainer(tmp_path, **options)


def test_columns_that_trl_replaces_are_said(tmp_path, caplog):
    data = rows(NUMBERS, completion_ids=[[1]] * len(NUMBERS))
    trainer(tmp_path, reward_funcs=never_called, train_dataset=data)
    assert sum("columns completion_ids, and TRL gives" in line for line in caplog.messages) == 1
    with pytest.raises(curro.ConfigError, match="columns completions, and TRL gives"):
        trainer(tmp_path, train_dataset=data.rename_column("completion_ids", "completions"))


def test_repeated_rows_are_said(tmp_path, caplog):
    trainer(tmp_path, train_dataset=rows(["1"] * 24).map(lambda _: {"prompt": "1 ="}))
    assert any("23 of 24 rows repeat the prompt and answer" in line for line in caplog.messages)

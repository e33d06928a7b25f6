"""Rows are scored with their own answers before TRL loads the model."""

from __future__ import annotations

import re

import pytest
from datasets import Dataset
from tests.hosts.trl.setup import trainer

import curro
from curro.reward import resolve_reward, trl_reward

NUMBERS = [str(i) for i in range(55)]
MIXED = [*NUMBERS, "five", "1/2", "x^2", "seven", "2:3"]


def rows(answers, column="answer", **columns):
    return Dataset.from_dict(
        {"prompt": [f"question {i}" for i in range(len(answers))], column: answers, **columns}
    )


def reads_numbers(completions, **columns):
    truths = columns.get("answer") or columns["solution"]
    numbers = [re.findall(r"\d+", completion.partition("<think>")[0]) for completion in completions]
    return [float(found[-1:] == [truth]) for found, truth in zip(numbers, truths, strict=True)]


def correctness_reward(completions, answer, **_):
    return [float(f"<SOLUTION>{a}</SOLUTION>" in c) for c, a in zip(completions, answer, strict=True)]


def short(completions, **_):
    return [-len(completion) for completion in completions]


def fails(completions, **columns):
    return [float(bool(columns["target"]))] * len(completions)


class Reader:
    """A reward that is an object."""

    def __call__(self, completions, **columns):
        return reads_numbers(completions, **columns)


@pytest.mark.parametrize(
    ("function", "data", "sentence"),
    [
        (reads_numbers, rows(NUMBERS), None),
        (
            reads_numbers,
            rows(MIXED),
            r"reward 'reads_numbers' on 60 rows: does not fit 5 rows, such as row 55",
        ),
        (reads_numbers, rows(MIXED, "solution"), r"does not fit 5 rows, such as row 55: .* 'five'"),
        (Reader(), rows(MIXED), r"reward 'Reader' on 60 rows: does not fit 5 rows"),
        (correctness_reward, rows(NUMBERS), r"an empty completion scores as much as the answer in 55 rows"),
        (short, rows(NUMBERS), None),
        (fails, rows(NUMBERS), r"raises KeyError: 'target' .*no_check=True"),
        (trl_reward(resolve_reward("exact")), rows(MIXED, key=MIXED), None),
    ],
)
def test_a_reward_that_does_not_fit_is_said(tmp_path, caplog, function, data, sentence):
    trainer(tmp_path, reward_funcs=[function, short], train_dataset=data)
    said = [line for line in caplog.messages if "no_check" in line]
    assert len(said) == (sentence is not None)
    assert sentence is None or re.search(sentence, said[0])


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
    trainer(tmp_path, reward_funcs=reads_numbers, train_dataset=data)
    assert sum("columns completion_ids, and TRL gives" in line for line in caplog.messages) == 1
    with pytest.raises(curro.ConfigError, match="columns completions, and TRL gives"):
        trainer(tmp_path, train_dataset=data.rename_column("completion_ids", "completions"))


def test_repeated_rows_are_said(tmp_path, caplog):
    trainer(tmp_path, train_dataset=rows(["1"] * 24).map(lambda _: {"prompt": "1 ="}))
    assert any("23 of 24 rows repeat the prompt and answer" in line for line in caplog.messages)

"""An interrupted and resumed run selects the same prompts as an uninterrupted one."""

from __future__ import annotations

import json

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.hosts.trl.setup import config, dataset, first_token_is_even, resumed_and_whole, trainer

import curro
from curro import Curriculum
from curro.data.levels import Levels
from curro.hosts.trl import CurriculumGRPOTrainer
from curro.lab.model import build_model, build_tokenizer
from curro.runs.folder import RunFolder


@pytest.mark.parametrize(
    "curriculum", ["prioritized-replay", "prioritized-replay:variant=published", "uniform"]
)
def test_resume_draws_and_trains_as_if_nothing_had_happened(tmp_path, curriculum):
    resumed_and_whole(tmp_path, after=3, curriculum=curriculum, max_steps=6)


@pytest.mark.parametrize(
    "schedule",
    [
        {"num_iterations": 2},
        {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 4},
        {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 2},
    ],
    ids=["two iterations", "two updates a generation", "accumulation"],
)
def test_resume_between_a_generation_and_its_last_update(tmp_path, schedule):
    """Three updates with two a generation: the checkpoint falls into the middle of one."""
    resumed_and_whole(tmp_path, after=3, max_steps=6, **schedule)


class Sums:
    name = "sums"
    levels = ({"terms": 2}, {"terms": 3}, {"terms": 4})

    def problem(self, level, rng):
        terms = [rng.randrange(10) for _ in range(level + 2)]
        return {"prompt": " + ".join(map(str, terms)) + " =", "answer": sum(terms)}


def test_levels_may_stand_without_their_name(tmp_path):
    tokenizer = build_tokenizer()
    model = build_model(tokenizer, width=32, layers=1)
    arguments = (model, first_token_is_even, config(tmp_path, max_steps=1), Levels([Sums()]))
    host = CurriculumGRPOTrainer(*arguments, processing_class=tokenizer, curriculum="frontier")
    host.train()
    assert host.curriculum.metrics()["observed"] > 0


def test_a_resumed_run_generates_the_same_problems(tmp_path):
    seen = []

    def reward(prompts, completion_ids, answer, key, source, **columns):
        assert source == ["sums"] * len(prompts)
        assert [sum(map(int, text[:-2].split("+"))) for text in prompts] == [int(one) for one in answer]
        seen.append(key)
        return [float(ids[0] % 2 == 0) for ids in completion_ids]

    levels = Levels([Sums()])
    curriculum = [Curriculum("frontier", levels, seed=3) for _ in range(3)]
    options = {"train_dataset": levels, "reward_funcs": reward}

    def play(folder, curriculum, steps, **resume):
        seen.clear()
        host = trainer(
            tmp_path / folder, curriculum=curriculum, max_steps=steps, save_strategy="steps", save_steps=2,
            **options,
        )  # fmt: skip
        host.train(**resume)
        return host, list(seen)

    whole, keys = play("whole", curriculum[0], 4)
    _, before = play("cut", curriculum[1], 2)
    resumed, after = play("cut", curriculum[2], 4, resume_from_checkpoint=str(tmp_path / "cut/checkpoint-2"))
    assert before + after == keys
    assert len({key for batch in keys for key in batch}) == 4 * 4
    assert (tmp_path / "whole/curro/core/groups.jsonl").read_bytes() == (
        tmp_path / "cut/curro/core/groups.jsonl"
    ).read_bytes()
    line = json.loads((tmp_path / "whole/curro/core/groups.jsonl").read_text().splitlines()[0])
    assert line["ticket"] == 0
    assert line["text"] == curriculum[0].row(line["prompt"], 0)["prompt"]
    for ours, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_of_another_curriculum_is_refused(tmp_path):
    trainer(tmp_path, save_strategy="steps", save_steps=3).train()
    other = trainer(tmp_path, curriculum="uniform", max_steps=6)
    with pytest.raises(curro.CheckpointError, match="another configuration"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))


def test_a_checkpoint_without_curriculum_is_refused(tmp_path):
    trainer(tmp_path, save_strategy="steps", save_steps=3).train()
    (tmp_path / "checkpoint-3" / "curro" / "curriculum.npz").unlink()
    with pytest.raises(curro.CheckpointError, match="no saved curriculum at"):
        trainer(tmp_path, max_steps=6).train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))


def test_the_log_names_a_checkpoint_of_an_earlier_run(tmp_path, caplog):
    sentence = f"{tmp_path / 'checkpoint-1'} is of an earlier run, and this run begins anew: resuming would"
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    assert "earlier run" not in caplog.text
    trainer(tmp_path, max_steps=1).train()
    assert caplog.text.count(sentence) == 1
    caplog.clear()
    trainer(tmp_path, max_steps=2).train(resume_from_checkpoint=True)
    assert "earlier run" not in caplog.text


def test_rows_that_were_added_and_removed_are_found_again(tmp_path):
    rows = dataset().add_column("key", [f"row {i}" for i in range(len(dataset()))])
    first = trainer(tmp_path, train_dataset=rows, curriculum="posterior", save_strategy="steps", save_steps=3)
    first.train()
    removed = int(np.flatnonzero(first.curriculum.table["visits"])[0])
    left = [i for i in reversed(range(len(rows))) if i != removed]
    new = datasets.Dataset.from_list([rows[0] | {"key": "new"}])
    other = datasets.concatenate_datasets([rows.select(left), new])
    resumed = trainer(tmp_path, train_dataset=other, curriculum="posterior", max_steps=6)
    with pytest.warns(
        UserWarning, match=f"{len(left)} rows are known, 0 of them changed, 1 are new and 1 are"
    ):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.state.global_step == 6
    before, after = (host.curriculum.table["visits"] for host in (first, resumed))
    assert (after[:-1] >= before[left]).all()
    assert after.sum() - (before.sum() - before[removed]) == 3 * 4
    lines = RunFolder.open(tmp_path).groups()
    assert [f"row {left[line['prompt']]}" for line in lines if line["key"] != "new"] == [
        line["key"] for line in lines if line["key"] != "new"
    ]
    assert f"row {removed}" not in [line["key"] for line in lines]


def test_rollouts_that_are_left_are_saved_as_plain_tensors(tmp_path):
    trainer(tmp_path, save_strategy="steps", save_steps=3, num_iterations=2).train()
    saved = load_file(tmp_path / "checkpoint-3" / "curro" / "rollouts-0.safetensors")
    assert saved["0/completion_ids"].shape[0] == 16

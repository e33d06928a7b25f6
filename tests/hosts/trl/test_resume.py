"""An interrupted and resumed run selects the same prompts as an uninterrupted one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from peft import LoraConfig
from safetensors.torch import load_file
from tests.hosts.trl.judging import value_of
from tests.hosts.trl.setup import resumed_and_whole, trainer

import curro
from curro.hosts.trl import checkpoint as checkpoints
from curro.methods.prediction.metis import predictor

METIS = {"name": "metis", "candidates": 2, "max_tokens": 6, "template": "lab", "weight": 1.0}
TWO_UPDATES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 4}
RESUMED: dict[str, tuple[int, dict[str, Any]]] = {
    # three updates with two a generation: the checkpoint falls into the middle of one
    "accumulation": (3, {**TWO_UPDATES, "steps_per_generation": 2, "max_steps": 5}),
    "METIS, two iterations": (3, {"curriculum": METIS, "num_iterations": 2, "max_steps": 5}),
    "METIS, two updates a generation": (3, {"curriculum": METIS, **TWO_UPDATES, "max_steps": 5}),
    "METIS, filled": (3, {"curriculum": METIS, "admission": "band:0.2,0.8", "max_steps": 5}),
    "entropies": (10, {"curriculum": "frontier:candidates=2,features=text+entropy", "max_steps": 12}),
    "a value model": (2, {"curriculum": "pcl:candidates=2,learning_rate=0.01", "max_steps": 4}),
}


@pytest.mark.parametrize(("after", "options"), RESUMED.values(), ids=RESUMED)
def test_resume_draws_and_trains_as_if_nothing_had_happened(tmp_path, monkeypatch, after, options):
    monkeypatch.setattr(predictor, "read_prediction", value_of)  # METIS' judgments are random tokens
    resumed_and_whole(tmp_path, after=after, **options)


def test_a_checkpoint_without_curriculum_is_refused(tmp_path):
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    (tmp_path / "checkpoint-1" / "curro" / "curriculum.npz").unlink()
    with pytest.raises(curro.CheckpointError, match=r"no saved curriculum at .*checkpoint-1 as its model"):
        trainer(tmp_path, max_steps=2).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


def test_a_checkpoint_of_other_weights_is_not_called_damaged(tmp_path):
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    adapted = trainer(tmp_path, max_steps=2, peft_config=LoraConfig(r=2))
    with pytest.raises(curro.CheckpointError, match="resume with the model and the options that saved it"):
        adapted.train(resume_from_checkpoint=True)


def test_a_trainer_that_has_trained_does_not_begin_again(tmp_path):
    host = trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=1)
    host.train()
    with pytest.raises(curro.ConfigError, match=r"until step 2, .* train.resume_from_checkpoint=True"):
        host.train()
    host.args.max_steps = 3
    host.train(resume_from_checkpoint=True)
    assert host.state.global_step == 3


def test_the_log_names_a_checkpoint_of_an_earlier_run(tmp_path, caplog):
    sentence = f"{tmp_path / 'checkpoint-1'} is of an earlier run, and this run begins anew: resuming would"
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    assert "earlier run" not in caplog.text
    with pytest.raises(curro.CheckpointError, match="there is no checkpoint"):
        trainer(tmp_path).train(resume_from_checkpoint=str(tmp_path / "checkpoint-9"))
    trainer(tmp_path, max_steps=1).train()
    assert caplog.text.count(sentence) == 1
    caplog.clear()
    trainer(tmp_path, max_steps=2).train(resume_from_checkpoint=True)
    assert "earlier run" not in caplog.text


def test_the_last_checkpoint_that_was_saved_whole_is_resumed_from(tmp_path):
    trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=1).train()
    (tmp_path / "checkpoint-2" / "trainer_state.json").unlink()  # a process was killed before it came to this
    again = trainer(tmp_path, max_steps=3)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 3


def test_a_state_that_trl_did_not_write_is_refused(tmp_path):
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    path = tmp_path / "checkpoint-1" / "trainer_state.json"
    written = json.loads(path.read_text())
    checkpoints.check_state(path.parent)
    wrong = {"best_model_checkpoint": {"a": 1}, "total_flos": "x", "best_metric": "x", "epoch": None}
    for name, value in (wrong | {"stateful_callbacks": {}}).items():
        path.write_text(json.dumps(written | {name: value}))
        with pytest.raises(curro.CheckpointError, match=f"{name} in trainer_state"):
            checkpoints.check_state(path.parent)
    path.write_text('{"global_step": 1, "log_history": []}')
    with pytest.raises(curro.CheckpointError, match="train_batch_size"):
        trainer(tmp_path, max_steps=2).train(resume_from_checkpoint=True)


@pytest.mark.parametrize(
    "other",
    [{"beta": 0.1}, {"per_device_train_batch_size": 32}],
    ids=["a loss that needs more", "a larger batch"],
)
def test_rollouts_that_do_not_fit_this_run_are_left_out(tmp_path, model_folder, caplog, other):
    options = {"model": model_folder, "num_iterations": 2, "save_strategy": "steps", "save_steps": 1}
    trainer(tmp_path, max_steps=1, **options).train()
    saved = load_file(tmp_path / "checkpoint-1" / "curro" / "rollouts-0.safetensors")
    assert saved["0/completion_ids"].shape[0] == 16
    again = trainer(tmp_path, max_steps=2, **options | other)
    again.train(resume_from_checkpoint=True)
    assert caplog.text.count("they are left out") == 1
    assert again.curriculum.metrics()["in_flight"] == 0
    assert again.curriculum.metrics()["observed"] == 4 + again.args.generation_batch_size // 4

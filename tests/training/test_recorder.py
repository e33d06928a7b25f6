"""What the recorder writes of a group, when it evaluates, and that it advises."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import TrainerControl, TrainerState

from curro import Curriculum
from curro.hosts.trl import GroupRecord
from curro.runs.folder import PREDICTED, RunFolder
from curro.training.recorder import Recorder
from curro.training.settings import TrainSettings


def groups_of(folder, spec, steps=2):
    """The lines of some steps of three prompts, what the table held of the predictions, the drawn prompts."""
    run, curriculum = RunFolder.create(folder, {}), Curriculum(spec, prompts=12, seed=0)
    settings = TrainSettings("lab:chains", prompts_per_step=3, rollouts_per_prompt=2)
    recorder = Recorder(run, curriculum, settings, evaluate=None, on_step=print)
    told, drawn = [], []
    for step in range(steps):
        draw = curriculum.select(3, step=step, rollouts=6)
        told += [
            curriculum.table[name][draw.prompts] for name in PREDICTED if name in curriculum.table.columns
        ]
        rewards = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        verdict = curriculum.observe(draw.tickets, rewards)
        recorder.on_groups(GroupRecord(step, draw, rewards, verdict))
        drawn += draw.prompts.tolist()
    return run.groups(), told, drawn


@pytest.mark.parametrize(
    ("spec", "name"),
    [("posterior:target=none", "predicted_variance"), ("posterior", "predicted_rate"), ("uniform", None)],
)
def test_a_line_has_what_was_predicted(tmp_path, spec, name):
    rows, told, drawn = groups_of(tmp_path / "run", spec)
    plain = ["step", "prompt", "ticket", "key", "reason", "mean", "variance", "admitted", "rollouts"]
    assert [row["prompt"] for row in rows] == drawn
    assert [row["step"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["variance"] for row in rows[:3]] == [0.25, 0, 0]
    for row in rows:
        assert list(row) == plain + ([name] if name else [])
    if name is not None:
        np.testing.assert_array_equal([row[name] for row in rows], np.concatenate(told))
        assert all(0 < row[name] < 1 for row in rows)


def test_a_resumed_run_is_evaluated_when_it_would_have_been(tmp_path):
    """Steps of 6 rollouts, an evaluation after every 12; it is resumed amid the fourth."""
    run, curriculum = RunFolder.create(tmp_path / "run", {}), Curriculum("uniform", prompts=12, seed=0)
    step = {"prompts_per_step": 3, "rollouts_per_prompt": 2}
    settings = TrainSettings("lab:chains", rollouts=36, eval_every=2, **step)
    options = {"evaluate": lambda: {"eval/pass@1": 0.5}, "on_step": lambda line: None}
    recorder = Recorder(run, curriculum, settings, **options)
    recorder.on_train_begin(None, TrainerState(), None)
    for step in range(1, 6):
        if step == 4:
            recorder = Recorder(run, curriculum, settings, **options)
            recorder.resume(3)
        draw = curriculum.select(3, step=step, rollouts=6)
        rewards = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
        recorder.on_groups(GroupRecord(step - 1, draw, rewards, curriculum.observe(draw.tickets, rewards)))
        recorder.on_step_end(None, TrainerState(global_step=step), TrainerControl())
    assert [row["step"] for row in run.metrics() if "eval/pass@1" in row] == [0, 2, 4]


def test_a_run_whose_rewards_are_all_equal_is_advised_once(tmp_path):
    run, curriculum, said = RunFolder.create(tmp_path / "run", {}), Curriculum("uniform", prompts=12), []
    settings = TrainSettings("lab:chains", prompts_per_step=4, rollouts_per_prompt=2)
    recorder = Recorder(run, curriculum, settings, evaluate=None, on_step=lambda line: None, say=said.append)
    for step in range(1, 45):
        draw = curriculum.select(4, step=step, rollouts=8)
        rewards = np.zeros((4, 2))
        recorder.on_groups(GroupRecord(step - 1, draw, rewards, curriculum.observe(draw.tickets, rewards)))
        recorder.on_step_end(None, TrainerState(global_step=step), TrainerControl())
    assert [sentence.partition(":")[0] for sentence in said] == [
        "All rollouts of 80 groups had the reward 0. Read some (curro inspect RUN PROMPT)"
    ]

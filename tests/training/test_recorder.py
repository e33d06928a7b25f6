"""What the recorder writes of a group, and that it warns of a run whose rewards are all equal."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import TrainerControl, TrainerState

from curro import Curriculum
from curro.hosts.trl import GroupRecord
from curro.runs.folder import PREDICTED, RunFolder
from curro.training.recorder import ConstantRewards, Recorder
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


def test_a_generation_is_evaluated_when_all_its_steps_are_made(tmp_path):
    """Three steps a generation of 6 rollouts, an evaluation after every 12; it is resumed amid the fourth."""
    run, curriculum = RunFolder.create(tmp_path / "run", {}), Curriculum("uniform", prompts=12, seed=0)
    step = {"prompts_per_step": 3, "rollouts_per_prompt": 2, "num_iterations": 3}
    settings = TrainSettings("lab:chains", rollouts=36, eval_every=2, **step)
    options = {"evaluate": lambda: {"eval/pass@1": 0.5}, "on_step": lambda line: None}
    recorder = Recorder(run, curriculum, settings, **options)
    recorder.on_train_begin(None, TrainerState(), None)
    for step in range(1, 16):
        if step == 12:
            recorder = Recorder(run, curriculum, settings, **options)
            recorder.resume(11)
        if step % 3 == 1:
            draw = curriculum.select(3, step=step, rollouts=6)
            rewards = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
            verdict = curriculum.observe(draw.tickets, rewards)
            recorder.on_groups(GroupRecord(step - 1, draw, rewards, verdict))
        recorder.on_step_end(None, TrainerState(global_step=step), TrainerControl())
    assert [row["step"] for row in run.metrics() if "eval/pass@1" in row] == [0, 6, 12]


def warnings(rewards_of_step, steps, reward_range=(0.0, 1.0), first=1):
    """What is said after which step."""
    watch = ConstantRewards(reward_range)
    said = {step: watch.after_step(step, rewards_of_step(step)) for step in range(first, steps + 1)}
    return {step: sentence for step, sentence in said.items() if sentence is not None}


def test_failures_come_with_their_chance():
    """0.99^320 is 0.0401, 0.99^640 is 0.00161."""
    said = warnings(lambda step: [0.0] * 16, 50)
    assert list(said) == [20, 40]
    assert said[20] == (
        "all 320 rewards of the first 20 steps are 0; if the pass rate were 1%, the chance of that would be "
        "0.04: check the reward and the answers, or start from easier prompts; training goes on"
    )
    assert "640 rewards of the first 40 steps are 0; if the pass rate were 1%" in said[40]
    assert "would be 0.0016: " in said[40]


@pytest.mark.parametrize("different", [1, 7, 20])
def test_one_other_reward_ends_the_watch(different):
    assert warnings(lambda step: [0.0, float(step == different)], 90) == {}


def test_a_signal_after_the_first_warning_ends_it_too():
    assert list(warnings(lambda step: [0.0, float(step == 30)], 90)) == [20]


def test_successes_and_other_constants():
    assert "if the rate of failures were 1%" in warnings(lambda step: [2.0], 20, (0.0, 2.0))[20]
    assert warnings(lambda step: [0.5] * 4, 20)[20].startswith(
        "all 80 rewards of the first 20 steps are 0.5: check the reward"
    )


def test_steps_without_any_reward_count():
    assert warnings(lambda step: [], 20)[20].startswith("no rollout of the first 20 steps has")
    assert "all 1 rewards" in warnings(lambda step: [0.0] if step == 3 else [], 20)[20]


def test_a_resumed_run_is_not_watched():
    assert warnings(lambda step: [0.0], 90, first=5) == {}

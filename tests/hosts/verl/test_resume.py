"""Killed and resumed, a run goes on as the run that was not."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ray_for_tests import FORKED, ray_address
from setup_run import clear_queue, configuration, run, write_model
from simulation import Workers

import curro
from curro.core.checkpoint import load_state
from curro.hosts.verl.policy import VerlRows

METHODS = {
    "filled and credited": [
        "+curro.selection=prioritized-replay",
        "+curro.admission=signal",
        "+curro.advantage=smoothed",
    ],
    "metis": [
        "+curro.selection.name=metis",
        "+curro.selection.candidates=2",
        "+curro.selection.max_tokens=16",
    ],
    "pcl": [
        "+curro.selection.name=pcl",
        "+curro.selection.candidates=2",
        f"actor_rollout_ref.model.path={write_model()}",
    ],
}
SAVE = "trainer.save_freq=2"


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, method):
    whole = run(tmp_path / "whole", *METHODS[method], SAVE, steps=5)
    program = Path(__file__).parent / "program_killed.py"
    killed = subprocess.run(
        [os.environ[FORKED], str(program), method, str(tmp_path / "cut"), *METHODS[method], SAVE],
        env=os.environ | {"CURRO_TEST_KILL": "3", "RAY_ADDRESS": ray_address()},
        capture_output=True,
        text=True,
        timeout=3600,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "cut" / "latest_checkpointed_iteration.txt").read_text() == "2"
    clear_queue()  # which another Ray would not have
    resumed = run(tmp_path / "cut", *METHODS[method], SAVE, steps=5, actor=method == "metis")
    assert resumed.asked == [(step, number) for step, number in whole.asked if step > 2]
    assert resumed.trainer.policy.skill == whole.trainer.policy.skill
    assert resumed.trainer.policy.taught == whole.trainer.policy.taught
    assert_equal(resumed.state, whole.state)


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        if isinstance(value, dict):
            assert_equal(value, theirs[name])
        else:
            np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def test_a_checkpoint_is_complete_only_with_its_curriculum(tmp_path, monkeypatch):
    """Killed while verl saves: the latest complete checkpoint has a curriculum of the same step."""
    run(tmp_path / "out", SAVE, steps=2)

    def cut_off(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Workers, "save_checkpoint", cut_off)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", SAVE, steps=4)
    monkeypatch.undo()
    assert (tmp_path / "out" / "global_step_4" / "curro" / "curriculum.npz").exists()
    resumed = run(tmp_path / "out", SAVE, steps=3)
    assert [step for step, _ in resumed.asked] == [3] * 4
    assert resumed.metrics["observed"] == 12


def test_tickets_in_flight_at_a_checkpoint_are_dropped(tmp_path):
    done = run(tmp_path / "out", SAVE, steps=2)
    path = tmp_path / "out" / "global_step_2" / "curro" / "curriculum.npz"
    curriculum = done.trainer.settings.curriculum
    again = curro.Curriculum.from_config(curriculum, VerlRows(done.trainer.train_dataset))
    again.load(path)
    again.select(3, step=2)
    again.save(path)
    resumed = run(tmp_path / "out", SAVE, steps=3)
    assert (resumed.metrics["in_flight"], resumed.metrics["dropped"]) == (0, 3)


def test_rows_in_another_order_are_refused(tmp_path):
    run(tmp_path / "out", SAVE, steps=2)
    files = list(configuration(tmp_path / "out", steps=3).data.train_files)
    with pytest.raises(curro.CheckpointError, match="--known RUN"):
        run(tmp_path / "out", f"data.train_files=[{files[1]},{files[0]}]", steps=3)


def test_other_settings_or_no_curriculum_are_refused(tmp_path):
    run(tmp_path / "out", SAVE, steps=2)
    path = tmp_path / "out" / "global_step_2" / "curro" / "curriculum.npz"
    assert load_state(path)["config"]["selection"] == {"name": "uniform"}
    with pytest.raises(curro.CheckpointError, match="another configuration"):
        run(tmp_path / "out", "+curro.selection=least-visited", steps=3)
    estimates = path.with_name("estimates.json")
    estimates.write_text("[1, ")
    with pytest.raises(curro.CheckpointError, match=r"estimates.json is missing or damaged .*=resume_path"):
        run(tmp_path / "out", steps=3)
    path.unlink()
    with pytest.raises(curro.CheckpointError, match="no saved curriculum at"):
        run(tmp_path / "out", steps=3)

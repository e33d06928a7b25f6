"""verl 0.7.1, for those who stay there: its own sampler hook, in a process where it is verl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from setup_run import write_data

import curro

HERE = Path(__file__).parent
OLD = os.environ.get("VERL_071", "")

pytestmark = pytest.mark.skipif(not OLD, reason="VERL_071 names no folder with verl 0.7.1: see make verl")


def run_program(folder, **curro_settings):
    files, _ = write_data()
    overrides = {"curro": curro_settings} if curro_settings else {}
    return subprocess.run(
        [sys.executable, str(HERE / "program_071.py"), json.dumps([files, str(folder / "cache"), overrides])],
        env=os.environ | {"PYTHONPATH": OLD},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_same_curriculum_draws_and_learns_and_resumes(tmp_path):
    done = run_program(tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    twin = curro.Curriculum("prioritized-replay", [str(row) for row in range(24)], seed=5)
    for step, (drawn, scores) in enumerate(found["history"]):
        draw = twin.select(4, step=step)
        assert draw.prompts.tolist() == drawn
        twin.observe(draw.tickets[:3], np.reshape(scores, (3, 4)))
        twin.drop(draw.tickets[3:])
    assert found["later"] == found["history"][2:]
    assert (found["metrics"]["observed"], found["metrics"]["dropped"]) == (12, 4)


def test_what_0_7_cannot_do_is_refused(tmp_path):
    done = run_program(tmp_path, admission="signal")
    assert done.returncode != 0
    assert "need verl 0.9 and trainer.v1.trainer_mode=curro_sync" in done.stderr

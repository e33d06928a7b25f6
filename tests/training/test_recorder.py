"""What the recorder writes of a group, of methods that predict and of those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from curro import Curriculum
from curro.hosts.trl import GroupRecord
from curro.runs.folder import PREDICTED, RunFolder
from curro.training.recorder import Recorder


def groups_of(folder, spec, steps=2):
    """The lines of some steps of three prompts, what the table held of the predictions, the drawn prompts."""
    run, curriculum = RunFolder.create(folder, {}), Curriculum(spec, prompts=12, seed=0)
    recorder = Recorder(run, curriculum, evaluate=None, budget=99, steps=9, eval_every=0, on_step=print)
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
    plain = ["step", "prompt", "key", "reason", "mean", "variance", "admitted", "rollouts"]
    assert [row["prompt"] for row in rows] == drawn
    assert [row["step"] for row in rows] == [1, 1, 1, 2, 2, 2]
    assert [row["variance"] for row in rows[:3]] == [0.25, 0, 0]
    for row in rows:
        assert list(row) == plain + ([name] if name else [])
    if name is not None:
        np.testing.assert_array_equal([row[name] for row in rows], np.concatenate(told))
        assert all(0 < row[name] < 1 for row in rows)

"""PCL in TRL: the value model is lent a copy of the first weights, and resumes with them."""

from __future__ import annotations

import numpy as np
import torch
from tests.hosts.trl.judging import weights
from tests.hosts.trl.setup import Diary, trainer

PCL = {"name": "pcl", "candidates": 2, "learning_rate": 1e-2}


def test_resume_goes_on_as_if_nothing_had_happened(tmp_path):
    options = {"curriculum": PCL, "max_steps": 6, "save_steps": 3, "save_strategy": "steps"}
    whole, first, second = Diary(), Diary(), Diary()
    uninterrupted = trainer(tmp_path / "whole", on_groups=whole, **options)
    uninterrupted.train()
    trainer(tmp_path / "cut", on_groups=first, **(options | {"max_steps": 3})).train()
    resumed = trainer(tmp_path / "cut", on_groups=second, **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-3"))
    assert first.draws() + second.draws() == whole.draws()
    assert torch.equal(weights(resumed.model), weights(uninterrupted.model))
    one, other = (host.curriculum.selection.predictor.state_dict() for host in (resumed, uninterrupted))
    np.testing.assert_equal(one, other)
    assert one["updates"] == 5


def test_the_value_model_runs_on_its_own_weights(tmp_path):
    host = trainer(tmp_path, curriculum=PCL)
    model = host.curriculum.selection.predictor
    before = model._predict(np.arange(4), 0)
    with torch.no_grad():
        for parameter in host.model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(model._predict(np.arange(4), 0), before)

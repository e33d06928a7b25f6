"""What TRL lends of the policy: entropies to frontier, a copy of the first weights to PCL."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.hosts.trl.judging import copy_of, weights
from tests.hosts.trl.setup import dataset, trainer

import curro
from curro.hosts.trl.seams import end_tokens

FRONTIER = {"name": "frontier", "candidates": 2, "features": "entropy"}


@pytest.mark.parametrize("conversational", [False, True])
def test_entropies_are_those_of_the_two_tokens_after_each_prompt(tmp_path, conversational):
    host = trainer(
        tmp_path, train_dataset=dataset(conversational), per_device_train_batch_size=4, temperature=0.7
    )
    with torch.no_grad():
        for parameter in host.model.parameters():
            parameter.mul_(3)  # an untrained model is equally unsure of all prompts
    numbers = [3, 20, 11, 0, 12, 7]  # two parts, prompts of different lengths
    found = host.policy.entropies(numbers)
    assert (found.dtype, found.shape) == (np.float32, (6, 2))
    model = copy_of(host.model)
    for number, (first, second) in zip(numbers, found.tolist(), strict=True):
        ((ids,), _, _) = host._tokenize_prompts([host.train_dataset[number]["prompt"]])
        for expected in (first, second):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
            distribution = torch.distributions.Categorical(logits=logits / 0.7)
            assert expected == pytest.approx(float(distribution.entropy()), abs=1e-4)
            logits[end_tokens(host)] = -torch.inf  # an answer of one token has no second one
            ids = [*ids, int(logits.argmax())]
    assert found.std(axis=0).min() > 1e-3


def test_asking_leaves_no_trace(tmp_path):
    host = trainer(tmp_path)
    host.model.gradient_checkpointing_enable()
    before, state = weights(host.model), torch.get_rng_state()
    host.policy.entropies(list(range(20)))
    assert torch.equal(torch.get_rng_state(), state)
    assert host.model.training
    assert torch.equal(weights(host.model), before)
    assert all(parameter.grad is None for parameter in host.model.parameters())
    assert host.model.is_gradient_checkpointing


def test_prompts_with_images_are_refused(tmp_path):
    host = trainer(tmp_path)
    host._tokenize_prompts = lambda prompts: ([[1]], [["an image"]], {})
    with pytest.raises(curro.ConfigError, match="of prompts of text alone"):
        host.policy.entropies([0])


PCL = {"name": "pcl", "candidates": 2, "learning_rate": 1e-2}


def test_the_value_model_runs_on_its_own_weights(tmp_path):
    host = trainer(tmp_path, curriculum=PCL)
    model = host.curriculum.selection.predictor
    before = model._predict(np.arange(4), 0)
    with torch.no_grad():
        for parameter in host.model.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(model._predict(np.arange(4), 0), before)

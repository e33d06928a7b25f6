"""The policy's hidden states as TRL lends them, and frontier on top of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import LoraConfig
from tests.hosts.trl.judging import copy_of, weights
from tests.hosts.trl.setup import Diary, dataset, trainer

import curro

FRONTIER = {"name": "frontier", "candidates": 2, "features": "hidden"}


def states_one_by_one(host, model, numbers):
    """The last hidden state of each prompt by itself, as a model run by hand has it."""
    tokenizer, found = host._tokenizer, []
    for number in numbers:
        prompt = host.train_dataset[number]["prompt"]
        if isinstance(prompt, str):
            ids = tokenizer(prompt)["input_ids"]
        else:
            ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
        found.append(hidden[0, -1].float().numpy())
    return np.array(found)


@pytest.mark.parametrize("conversational", [False, True])
def test_states_are_those_of_each_prompt_alone(tmp_path, conversational):
    host = trainer(tmp_path, train_dataset=dataset(conversational), per_device_train_batch_size=4)
    numbers = [3, 20, 11, 0, 12, 7]  # two parts, prompts of different lengths
    states = host.policy.hidden_states(numbers)
    assert states.dtype == np.float32
    expected = states_one_by_one(host, copy_of(host.model), numbers)
    np.testing.assert_allclose(states, expected, atol=1e-5)
    assert states.std(axis=0).min() > 1e-4


def test_adapters_count(tmp_path):
    host = trainer(tmp_path, peft_config=LoraConfig(r=2, target_modules=["q_proj"]))
    before = host.policy.hidden_states([1, 2])
    with torch.no_grad():
        for name, parameter in host.model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.3)
    after = host.policy.hidden_states([1, 2])
    assert np.abs(after - before).max() > 1e-3
    merged = host.model.merge_and_unload()
    np.testing.assert_allclose(after, states_one_by_one(host, copy_of(merged), [1, 2]), atol=1e-5)


def test_asking_leaves_no_trace(tmp_path):
    host = trainer(tmp_path)
    host.model.gradient_checkpointing_enable()
    before, state = weights(host.model), torch.get_rng_state()
    host.policy.hidden_states(list(range(20)))
    assert torch.equal(torch.get_rng_state(), state)
    assert host.model.training
    assert torch.equal(weights(host.model), before)
    assert all(parameter.grad is None for parameter in host.model.parameters())
    assert host.model.is_gradient_checkpointing


def test_a_model_in_evaluation_stays_so(tmp_path):
    host = trainer(tmp_path)
    host.model.eval()
    host.policy.hidden_states([0])
    assert not host.model.training


def test_split_weights_are_refused(tmp_path):
    host = trainer(tmp_path)
    host.is_deepspeed_enabled = True
    with pytest.raises(curro.ConfigError, match="needs all of its weights"):
        host.policy.hidden_states([0])


def test_prompts_with_images_are_refused(tmp_path):
    host = trainer(tmp_path)
    host._tokenize_prompts = lambda prompts: ([[1]], [["an image"]], {})
    with pytest.raises(curro.ConfigError, match="of prompts of text alone"):
        host.policy.hidden_states([0])


@pytest.mark.parametrize("checkpointing", [False, True])
def test_resume_goes_on_as_if_nothing_had_happened(tmp_path, checkpointing):
    options = {
        "curriculum": FRONTIER,
        "max_steps": 12,
        "save_steps": 10,
        "save_strategy": "steps",
        "gradient_checkpointing": checkpointing,
    }
    whole, first, second = Diary(), Diary(), Diary()
    uninterrupted = trainer(tmp_path / "whole", on_groups=whole, **options)
    uninterrupted.train()
    trainer(tmp_path / "cut", on_groups=first, **(options | {"max_steps": 10})).train()
    resumed = trainer(tmp_path / "cut", on_groups=second, **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-10"))
    assert first.draws() + second.draws() == whole.draws()
    assert torch.equal(weights(resumed.model), weights(uninterrupted.model))
    one, other = (host.curriculum.state_dict()["selection"] for host in (resumed, uninterrupted))
    np.testing.assert_equal(one, other)
    assert len(one["predictor"]["regression"]["weight"]) == 32

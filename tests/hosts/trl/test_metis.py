"""METIS in TRL: the second loss is equation (9) to the digit, and everything else is as without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from tests.hosts.trl.judging import (
    copy_of,
    ends_early,
    judge_gradient,
    judge_loss,
    judging_trainer,
    plain_steps,
    rollouts_of,
    value_of,
    weights,
)
from tests.hosts.trl.setup import Diary, dataset, given_to_the_loss, trainer

import curro
from curro.core.policy import AuxiliarySamples
from curro.hosts.trl.auxiliary import loss_divisor, share_out
from curro.methods.prediction.metis import predictor


@pytest.fixture(autouse=True)
def any_answer_is_a_judgment(monkeypatch):
    monkeypatch.setattr(predictor, "read_prediction", value_of)


ACCUMULATE = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}


AT_ONCE: dict[str, Any] = {}
EVEN = ("dr_grpo", "dapo", "luspo")
"""Loss types that give every token the same weight, as (2) does."""


@pytest.mark.parametrize(
    ("loss_type", "schedule"),
    [*((name, AT_ONCE) for name in (*EVEN, "grpo", "bnpo")), ("dapo", ACCUMULATE)],
    ids=str,
)
def test_both_losses_have_the_gradient_of_a_direct_computation(tmp_path, loss_type, schedule):
    """Minus the gradient of (10), up to TRL's divisor by tokens, which is the same for (2) and (9)."""
    moved, diary = {}, Diary()
    level = {"importance_sampling_level": "sequence"} if loss_type == "luspo" else {}
    for weight in (0.0, 0.5):
        host = judging_trainer(
            tmp_path,
            metis={"exemplars": 0, "weight": weight},
            on_groups=diary,
            **plain_steps(loss_type=loss_type, max_completion_length=9, **level, **schedule),
        )
        ends_early(host)
        trained = given_to_the_loss(host)
        model = copy_of(host.model)
        host.train()
        moved[weight] = weights(model) - weights(host.model)
    without, with_auxiliary = diary.records
    assert diary.draws()[0] == diary.draws()[1]
    assert diary.rewards()[0] == diary.rewards()[1]
    assert without.verdict.auxiliary_samples is None
    auxiliary_samples = with_auxiliary.verdict.auxiliary_samples
    assert len(auxiliary_samples.advantages) == 4
    judged = judge_gradient(model, auxiliary_samples)
    rollouts, lengths = rollouts_of(trained)
    assert len(lengths) == 16
    divisor = {"dr_grpo": 9, "luspo": 1}.get(loss_type, np.mean(lengths))
    assert np.mean(lengths) < 8
    assert judged.abs().max() > 0.01
    torch.testing.assert_close(moved[0.5] - moved[0.0], 0.5 * judged / divisor, rtol=1e-3, atol=1e-5)
    if loss_type in EVEN:
        expected = (judge_gradient(model, rollouts) + 0.5 * judged) / divisor
        torch.testing.assert_close(moved[0.5], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "bnpo", "cispo", "sapo", "vespo", "dr_grpo", "luspo"])
def test_divisors(loss_type):
    """Four rollouts of 30 tokens together."""
    found = loss_divisor(loss_type, longest=16, tokens=30, rollouts=4)
    assert found == {"dr_grpo": 16, "luspo": 1}.get(loss_type, 7.5)


def test_the_logged_loss_is_that_of_equation_9(tmp_path):
    diary = Diary()
    host = judging_trainer(
        tmp_path, metis={"exemplars": 0}, on_groups=diary, **plain_steps(loss_type="dapo", **ACCUMULATE)
    )
    model = copy_of(host.model)
    host.train()
    auxiliary_samples = diary.records[0].verdict.auxiliary_samples
    total = float(judge_loss(model, auxiliary_samples).detach())
    entry = host.state.log_history[0]
    assert entry["judge/loss"] == pytest.approx(total, rel=1e-4)
    assert entry["judge/seconds"] > 0
    assert entry["curriculum/judge/judgments"] == 8


def auxiliary_of(number: int, weight: float) -> AuxiliarySamples:
    asked = tuple(tuple(range(5, 6 + j % 3)) for j in range(number))
    answered = tuple((10 + j,) * (1 + j % 2) for j in range(number))
    return AuxiliarySamples(asked, answered, np.arange(1.0, number + 1), weight)


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_auxiliary_samples_of_several_rounds_are_dealt_out_over_parts_and_processes(number):
    """The mean over processes of the sum over parts, over the number of parts, is the mean over samples."""
    found: list[tuple[int, float, float]] = []
    shapes = set()
    for rank in range(2):
        parts: list[dict[str, Any]] = [{}, {}]
        samples = [auxiliary_of(number, 1.5), auxiliary_of(1, 6.0)]
        accelerator: Any = SimpleNamespace(process_index=rank, num_processes=2, device=torch.device("cpu"))
        share_out(parts, samples, accelerator, divisor=3.0, pad_token=0)
        for part in parts:
            shapes.add(len(part["auxiliary_weights"]))
            rows = part["auxiliary_completion_ids"], part["auxiliary_advantages"], part["auxiliary_weights"]
            found += [
                (int(ids[0]), float(advantage) * (number + 1) / 4, float(weight))
                for ids, advantage, weight in zip(*rows, strict=True)
                if weight
            ]
    assert shapes == {-(-(number + 1) // 4)}
    expected = [(10 + j, 1.0 + j, 0.5) for j in range(number)] + [(10, 1.0, 2.0)]
    np.testing.assert_allclose(sorted(found), sorted(expected), rtol=1e-6)


def test_a_fill_trains_on_the_auxiliary_samples_of_all_its_rounds(tmp_path):
    diary = Diary()
    options = plain_steps(admission="band:0.4,0.6", on_groups=diary)
    host = judging_trainer(tmp_path, metis={"exemplars": 0, "weight": 1.0}, **options)
    model = copy_of(host.model)
    host.train()
    with_auxiliary = weights(model) - weights(host.model)
    assert len(diary.records) > 1
    rounds = [record.verdict.auxiliary_samples for record in diary.records]
    joined = AuxiliarySamples(
        sum((part.prompt_ids for part in rounds), ()),
        sum((part.completion_ids for part in rounds), ()),
        np.concatenate([part.advantages for part in rounds]),
        1.0,
    )
    host = judging_trainer(tmp_path, metis={"exemplars": 0, "weight": 0.0}, **options)
    host.train()
    difference = with_auxiliary - (weights(model) - weights(host.model))
    length = int(host._buffered_inputs[0]["num_items_in_batch"]) / 16  # what TRL's "dapo" divides by
    torch.testing.assert_close(difference, judge_gradient(model, joined) / length, rtol=1e-3, atol=1e-5)


def test_a_second_iteration_trains_on_the_rollouts_alone(tmp_path):
    diary = Diary()
    settings = plain_steps(num_iterations=2, max_steps=2, on_groups=diary)
    host = judging_trainer(tmp_path, metis={"exemplars": 0, "weight": 1.0}, **settings)
    losses = given_to_the_loss(host)
    host.train()
    assert all("auxiliary_advantages" in inputs for inputs in losses)
    assert len([entry for entry in host.state.log_history if "judge/loss" in entry]) == 1


@pytest.mark.parametrize("kind", ["conversational", "lora", "no template", "gradient checkpointing"])
def test_other_kinds_of_prompt_and_model(tmp_path, kind):
    options: dict[str, Any] = {
        "conversational": {"train_dataset": dataset(conversational=True)},
        "lora": {"peft_config": LoraConfig(r=2, target_modules=["q_proj"])},
        "gradient checkpointing": {"gradient_checkpointing": True},
        "no template": {},
    }[kind]
    host = judging_trainer(tmp_path, metis={"weight": 1.0}, **options)
    if kind == "no template":
        host.processing_class.chat_template = None
    host.train()
    assert host.model.training
    assert host.curriculum.metrics()["judge/judgments"] == 24


def policy_of(folder: Any, **options: Any) -> Any:
    return trainer(folder, **options).policy


def test_answers_are_the_same_alone_and_beside_longer_ones(tmp_path):
    policy = policy_of(tmp_path, temperature=1e-6)  # the likeliest token always
    asked = [
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
        for text in ("1 + 1 =", "1 + 1 = 2 and what would 2 + 2 be?")
    ]
    together = policy.answer(asked, 5)
    assert [policy.answer([one], 5)[0] for one in asked] == together
    assert policy.host.model.training
    tokenizer = policy.host._tokenizer
    assert together[0].prompt_ids == tuple(
        tokenizer("<bos><|system|>be brief<|user|>1 + 1 =<|assistant|>", add_special_tokens=False).input_ids
    )
    assert all(1 <= len(reply.completion_ids) <= 5 for reply in together)
    assert together[0].text == tokenizer.decode(together[0].completion_ids, skip_special_tokens=True)


def test_an_answer_ends_with_the_end_of_sequence(tmp_path):
    policy = policy_of(tmp_path)
    policy.sampling["eos_token_id"] = list(range(40, 400))
    replies = policy.answer([[{"role": "user", "content": "?"}]] * 20, 30)
    assert len({len(reply.completion_ids) for reply in replies}) > 1
    for reply in replies:
        assert not any(40 <= token < 400 for token in reply.completion_ids[:-1])


def test_split_weights_are_refused(tmp_path):
    host = trainer(tmp_path)
    policy, host.is_fsdp_enabled = host.policy, True
    with pytest.raises(curro.ConfigError, match="needs all of its weights"):
        policy.answer([[{"role": "user", "content": "?"}]], 1)


def test_evaluation_trains_nothing_and_asks_nothing(tmp_path):
    host = judging_trainer(tmp_path, eval_dataset=dataset(), per_device_eval_batch_size=8)
    host.evaluate()
    assert host.curriculum.metrics()["judge/judgments"] == 0
    assert not host._auxiliary


def test_the_backbone_is_a_copy(tmp_path):
    policy = policy_of(tmp_path, peft_config=LoraConfig(r=2, target_modules=["q_proj"]))
    model, tokenizer = policy.backbone()
    assert tokenizer is policy.host._tokenizer
    assert "lora" not in " ".join(name for name, _ in model.named_parameters())
    with torch.no_grad():
        next(model.parameters()).add_(1)
    ours = policy.host.model.get_base_model()
    assert not torch.equal(next(model.parameters()), next(ours.parameters()))

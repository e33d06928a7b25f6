"""METIS on the tiny random model of the TRL tests, whose answers mean something here."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.hosts.trl.setup import PROMPTS, trainer

import curro
from curro.core.policy import AuxiliarySamples

TEMPERATURE = 0.7


def value_of(text: str) -> float:
    """A variance for any text, and now and then a failure."""
    number = zlib.crc32(text.encode()) % 12
    return float("nan") if number == 11 else number / 44


def judging_trainer(folder: Any, *, metis: dict[str, Any] | None = None, **options: Any) -> Any:
    """A trainer whose judgments are six random tokens, which mean something with `value_of` in place.

    With the default template, which is three times as long, most of a test's time would go into reading it.
    """
    selection = {"name": "metis", "candidates": 2, "max_tokens": 6, "template": "lab"} | (metis or {})
    curriculum = curro.Curriculum(selection, PROMPTS, admission=options.pop("admission", None), seed=3)
    return trainer(folder, **({"curriculum": curriculum, "temperature": TEMPERATURE} | options))


def plain_steps(**options: Any) -> dict[str, Any]:
    """Settings with which a step moves the weights by minus the gradient."""
    plain = {"optim": "sgd", "learning_rate": 1.0, "max_grad_norm": 0.0, "weight_decay": 0.0, "max_steps": 1}
    return plain | options


def weights(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().double().ravel() for parameter in model.parameters()])


def copy_of(model: Any) -> Any:
    """A model with these weights; a deep copy would run the trained one's `forward`, as TRL set it."""
    with torch.random.fork_rng():
        fresh = type(model)(model.config)
    fresh.load_state_dict(model.state_dict())
    return fresh


def trained_with_and_without(
    folder: Any, diary: Any, read: Callable[[Any], torch.Tensor], **options: Any
) -> tuple[Any, Any, torch.Tensor]:
    """One step without the second loss and one with half of it, from the same weights on two processes.

    Args:
        diary: hears the groups of the second step, and none of the first.
        read: a model's weights, float64 (W,).
        options: of `plain_steps`.

    Returns:
        The model before the steps, the trainer of the second one, and how much further that one moved.
    """
    moved = []
    for weight in (0.0, 0.5):
        diary.records.clear()
        host = judging_trainer(
            folder / "run",
            metis={"exemplars": 0, "weight": weight},
            on_groups=diary,
            ddp_backend="gloo",
            **plain_steps(**options),
        )
        before = copy_of(host.model)
        host.train()
        moved.append(read(before) - read(host.model))
    return before, host, moved[1] - moved[0]


def judge_loss(model: Any, auxiliary_samples: AuxiliarySamples) -> torch.Tensor:
    """(9) sequence by sequence, without padding, as a loss to minimize."""
    total = torch.zeros(())
    for asked, answered, advantage in zip(
        auxiliary_samples.prompt_ids,
        auxiliary_samples.completion_ids,
        auxiliary_samples.advantages,
        strict=True,
    ):
        logits = model(input_ids=torch.tensor([[*asked, *answered]])).logits[0]
        logps = (logits / TEMPERATURE).log_softmax(dim=-1)[len(asked) - 1 : -1]
        total = total - advantage * logps.gather(1, torch.tensor(answered)[:, None]).sum()
    return total / len(auxiliary_samples.advantages)


def judge_gradient(model: Any, auxiliary_samples: AuxiliarySamples) -> torch.Tensor:
    """The gradient of `judge_loss`."""
    gradients = torch.autograd.grad(judge_loss(model, auxiliary_samples), list(model.parameters()))
    return torch.cat([gradient.double().ravel() for gradient in gradients])


def ends_early(host: Any) -> None:
    """Let many tokens end a rollout, so that rollouts have different lengths."""
    host.eos_token_ids = list(range(0, 400, 5))
    host.generation_config.eos_token_id = host.eos_token_ids


def rollouts_of(trained: list[dict[str, Any]]) -> tuple[AuxiliarySamples, list[int]]:
    """The rollouts of TRL's micro-batches with their advantages, and their lengths.

    (2) has the gradient of (9) where the policy is still the one that rolled them out.
    """
    asked, answered, advantages = [], [], []
    for inputs in trained:
        for i, advantage in enumerate(inputs["advantages"].tolist()):
            asked.append(tuple(inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist()))
            answered.append(tuple(inputs["completion_ids"][i][inputs["completion_mask"][i].bool()].tolist()))
            advantages.append(advantage)
    return AuxiliarySamples(tuple(asked), tuple(answered), np.array(advantages), 1.0), [
        len(ids) for ids in answered
    ]

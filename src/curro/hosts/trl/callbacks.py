"""The trainer's callbacks: steps without a gradient, and a rate that follows the signal."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback


class EmptySteps(TrainerCallback):
    """Takes the gradients away where all are zero: AdamW then leaves weights and moments as they are."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer, accelerator = kwargs["optimizer"], self._trainer.accelerator
        gradients = (
            weight.grad
            for group in optimizer.param_groups
            for weight in group["params"]
            if weight.grad is not None
        )
        has_signal = torch.tensor(float(any(bool(gradient.any()) for gradient in gradients)))
        is_empty = not accelerator.gather(has_signal.to(accelerator.device)).any()
        if is_empty:
            optimizer.zero_grad(set_to_none=True)
        self._trainer._metrics["train"]["empty_steps"].append(float(is_empty))


class ScaledRate(TrainerCallback):
    """Divides the learning rate by how much larger gradients are than with uniform sampling, while they are.

    "Prioritized Replay for RL Post-training", section 4.3: the loss scales linearly with the advantages, so
    that a rate tuned for uniform sampling may be too high. The factor is the square root of `signal/ratio`,
    that of mean squared advantages; a smaller signal does not raise the rate.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._rates: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = self._trainer
        ratio = trainer.main_process.decide(lambda: float(trainer.curriculum.metrics()["signal/ratio"]))
        scale = ratio**-0.5 if ratio > 1 else 1.0
        self._rates = [group["lr"] for group in kwargs["optimizer"].param_groups]
        for group, rate in zip(kwargs["optimizer"].param_groups, self._rates, strict=True):
            group["lr"] = rate * scale
        trainer._metrics["train"]["rate_scale"].append(scale)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for group, rate in zip(kwargs["optimizer"].param_groups, self._rates, strict=True):
            group["lr"] = rate

"""What changes in TRL's update: the second loss, steps without a gradient, a rate that follows the signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback
from trl.trainer.utils import pad

from curro.core.policy import AuxiliarySamples, join_auxiliary, tokens_divisor


def slots_of(auxiliary_samples: int, slots: int) -> np.ndarray:
    """The slot (J,) of each auxiliary sample. Slots are filled evenly, and neighbours go to different slots.

    Auxiliary samples come in the order of the draw, the most promising first.
    """
    used = min(auxiliary_samples, slots)
    return np.arange(auxiliary_samples) % used * slots // used


def loss_divisor(loss_type: str, *, longest: int, tokens: int, rollouts: int) -> float:
    """By what TRL's loss divides a rollout's sum over tokens, as `curro.core.policy.tokens_divisor`.

    "luspo" divides by nothing, "dr_grpo" by the longest length that there may be, the others by lengths.
    """
    aggregation = {"luspo": "seq-mean-token-sum", "dr_grpo": "seq-mean-token-sum-norm"}
    return tokens_divisor(
        aggregation.get(loss_type, "token-mean"), tokens=tokens, rollouts=rollouts, norm=longest
    )


def share_out(
    parts: Sequence[dict[str, Any]],
    auxiliary_samples: Sequence[AuxiliarySamples],
    *,
    rank: int,
    processes: int,
    divisor: float,
    device: torch.device,
    pad_token: int,
) -> None:
    """Put a process's share of the auxiliary samples beside its rollouts that wait to be trained on.

    The J auxiliary samples are dealt out over the processes and the S parts of the generation, scaled by
    (processes x S) / J, because processes and parts are averaged. With one optimizer step a generation its
    gradient is that of (9), with several on average. Every share has equally many rows, so that all processes
    do the same: a missing sample is a row of two tokens with advantage 0. The tensors stay with the rollouts
    in TRL's buffer, and so in checkpoints.

    Args:
        parts: TRL's `_buffered_inputs`, S = `steps_per_generation` of them.
        rank: of this process.
        divisor: of the auxiliary loss, from `loss_divisor`.
    """
    prompts_J, completions_J, advantages_J, weights_J = join_auxiliary(auxiliary_samples)
    if not prompts_J:
        return
    weights_J = weights_J / divisor
    slots = len(parts) * processes
    slot_J = slots_of(len(prompts_J), slots)
    blank = (prompts_J[0][-1:], completions_J[0][:1])
    for number, part in enumerate(parts):
        mine = np.flatnonzero(slot_J == rank * len(parts) + number)
        missing = -(-len(prompts_J) // slots) - len(mine)
        rows = [(prompts_J[j], completions_J[j]) for j in mine] + [blank] * missing
        scaled = np.pad(advantages_J[mine] * slots / len(prompts_J), (0, missing))
        tensors = _tensors(rows, scaled, np.pad(weights_J[mine], (0, missing)), pad_token)
        part.update({name: tensor.to(device) for name, tensor in tensors.items()})


def _tensors(
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    advantages: np.ndarray,
    weights: np.ndarray,
    pad_token: int,
) -> dict[str, torch.Tensor]:
    """Rows padded as TRL pads its own: prompts left, completions right."""
    tensors = {
        "auxiliary_advantages": torch.tensor(advantages, dtype=torch.float32),
        "auxiliary_weights": torch.tensor(weights, dtype=torch.float32),
    }
    for name, side, column in (("prompt", "left", 0), ("completion", "right", 1)):
        ids = [torch.tensor(row[column], dtype=torch.long) for row in rows]
        masks = [torch.ones_like(row) for row in ids]
        tensors[f"auxiliary_{name}_ids"] = pad(ids, padding_value=pad_token, padding_side=side)
        tensors[f"auxiliary_{name}_mask"] = pad(masks, padding_value=0, padding_side=side)
    return tensors


def auxiliary_loss(
    inputs: Mapping[str, torch.Tensor], log_probs: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The auxiliary samples' share of a micro-batch: METIS (9) and (10), divided as TRL divides its loss.

    Log-probabilities are of the logits over the temperature, without top-p and the like, as TRL's are.

    Args:
        inputs: a micro-batch to which `share_out` has added auxiliary samples.
        log_probs: of the last tokens of sequences, by token ids, attention mask and how many.

    Returns:
        -sum_j advantage_j sum_t log pi(token_t) with each sample's weight, for the loss; and without
    """
    ids, mask = inputs["auxiliary_completion_ids"], inputs["auxiliary_completion_mask"]
    log_probs_JT = log_probs(
        torch.cat([inputs["auxiliary_prompt_ids"], ids], dim=1),
        torch.cat([inputs["auxiliary_prompt_mask"], mask], dim=1),
        ids.size(1),
    )
    loss_J = -inputs["auxiliary_advantages"] * (log_probs_JT * mask).sum(dim=1)
    return (inputs["auxiliary_weights"] * loss_J).sum(), loss_J.sum().detach()


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

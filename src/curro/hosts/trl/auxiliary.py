"""What changes in TRL's update: the second loss, steps without a gradient, a rate that follows the signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn.utils.rnn import pad_sequence
from transformers import TrainerCallback

from curro.core.policy import AuxiliarySamples, join_auxiliary, tokens_divisor


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
    accelerator: Accelerator,
    *,
    divisor: float,
    pad_token: int,
) -> None:
    """Put a process's share of the auxiliary samples beside its rollouts that wait to be trained on.

    The J auxiliary samples, the most promising first, are dealt out evenly over the processes and the S parts
    of the generation, neighbours to different ones. They are scaled by (processes x S) / J, because processes
    and parts are averaged. With one optimizer step a generation its gradient is (9)'s, with several on
    average. Every share has equally many rows, so that all processes do the same: a missing sample is a row
    of two tokens with advantage 0. The tensors stay with the rollouts in TRL's buffer, and so in checkpoints.

    Args:
        parts: TRL's `_buffered_inputs`, S = `steps_per_generation` of them.
        accelerator: knows this process's place among all.
        divisor: of the auxiliary loss, from `loss_divisor`.
    """
    prompts_J, completions_J, advantages_J, weights_J = join_auxiliary(auxiliary_samples)
    samples, slots = len(prompts_J), len(parts) * accelerator.num_processes
    if not samples:
        return
    used = min(samples, slots)
    slot_J = np.arange(samples) % used * slots // used
    for number, part in enumerate(parts, start=accelerator.process_index * len(parts)):
        mine = np.flatnonzero(slot_J == number)
        missing = -(-samples // slots) - len(mine)
        numbers = {
            "advantages": np.pad(advantages_J[mine] * slots / samples, (0, missing)),
            "weights": np.pad(weights_J[mine] / divisor, (0, missing)),
        }
        tensors = {name: torch.tensor(values, dtype=torch.float32) for name, values in numbers.items()}
        # padded as TRL pads its own rows: prompts left, completions right
        for name, side, ids_J, blank in (
            ("prompt", "left", prompts_J, prompts_J[0][-1:]),
            ("completion", "right", completions_J, completions_J[0][:1]),
        ):
            rows = [torch.tensor(ids) for ids in [*(ids_J[j] for j in mine), *[blank] * missing]]
            masks = [torch.ones_like(row) for row in rows]
            tensors[f"{name}_ids"] = pad_sequence(rows, True, pad_token, side)
            tensors[f"{name}_mask"] = pad_sequence(masks, True, 0, side)
        part |= {f"auxiliary_{name}": tensor.to(accelerator.device) for name, tensor in tensors.items()}


def auxiliary_loss(
    inputs: Mapping[str, torch.Tensor], log_probs: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The auxiliary samples' share of a micro-batch: METIS (9) and (10), divided as TRL divides its loss.

    Log-probabilities come from the logits over the temperature, without top-p and the like, as TRL's are.

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
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        gradients = (weight.grad for weight in weights if weight.grad is not None)
        has_signal = torch.tensor(float(any(bool(gradient.any()) for gradient in gradients)))
        is_empty = not accelerator.gather(has_signal.to(accelerator.device)).any()
        if is_empty:
            optimizer.zero_grad(set_to_none=True)
        self._trainer._metrics["train"]["empty_steps"].append(float(is_empty))


class ScaledRate(TrainerCallback):
    """Divides the learning rate by how much larger gradients are than with uniform sampling, while they are.

    "Prioritized Replay for RL Post-training", section 4.3: the loss scales linearly with the advantages, so
    that a rate tuned for uniform sampling may be too high. The factor is the square root of `signal/ratio`,
    the ratio of mean squared advantages; a smaller signal does not raise the rate.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._rates: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = self._trainer
        ratio = trainer.main_process.decide(lambda: float(trainer.curriculum.metrics()["signal/ratio"]))
        scale = min(ratio, 4.0) if ratio > 1 else 1.0
        self._rates = [group["lr"] for group in kwargs["optimizer"].param_groups]
        for group, rate in zip(kwargs["optimizer"].param_groups, self._rates, strict=True):
            group["lr"] = rate * scale
        trainer._metrics["train"]["rate_scale"].append(scale)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for group, rate in zip(kwargs["optimizer"].param_groups, self._rates, strict=True):
            group["lr"] = rate

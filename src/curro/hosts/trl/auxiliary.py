"""The second loss: what the curriculum wants the policy trained on besides the rollouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
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
    (processes x S) / J. Processes are averaged, and an optimizer step sums its parts over their number, so
    that it trains on the mean of its auxiliary samples: with one optimizer step a generation that is (9)
    exactly, with several it is (9) on average, as a mini-batch of rollouts is of (2). Every share has equally
    many rows, so that all processes do the same: where an auxiliary sample is missing, there is a row of two
    tokens with advantage 0.

    The tensors stay with the rollouts in TRL's buffer, and so in checkpoints.

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
    """The auxiliary samples' share of a micro-batch: METIS (9) and (10).

    The weights have the divisor by tokens in them, and it is part of the loss that TRL divides by nothing any
    more. Log-probabilities belong to the distribution that the judgments were sampled from, as TRL's do
    for the rollouts: the logits over the temperature, without top-p and the like.

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

"""What groups without signal cost a step of TRL: no backward pass.

The rollouts of a flat group have equal rewards, so their advantages are 0, and in all of TRL's losses the
policy's term of a rollout is a multiple of its advantage. Where the loss has no other term, such a rollout
has no gradient, and its forward pass serves the metrics alone. It then runs without a graph; and before the
first update after a generation, when sampling has just computed the same numbers, not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from accelerate.utils import DistributedType

from curro.rollout.engines.plain_generation import SampledLogProbs

LOSSES_SCALED_BY_ADVANTAGE = {"grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"}
"""TRL's losses whose policy term is a multiple of the advantage, whatever corrects the ratio in it."""

WHOLE_MODEL = {DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU}
"""Where every process has all weights, so that processes need not run equally many forward passes."""


def only_advantages_teach(trainer: Any) -> bool:
    """Whether a rollout with advantage 0 has no gradient in this trainer's loss.

    A KL term, an entropy bonus and a router's loss have gradients of their own.
    """
    return (
        trainer.loss_type in LOSSES_SCALED_BY_ADVANTAGE
        and trainer.beta == 0
        and not trainer._entropy_bonus_enabled
        and not trainer.aux_loss_enabled
        and trainer.accelerator.distributed_type in WHOLE_MODEL
    )


def rows_with_gradient(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The rows, bool (B,), of prompts of which some rollout has an advantage other than 0.

    A prompt's rows stay together, because they share their prompt. If no prompt has such a rollout, it is
    the shortest row that has a token: its gradient of 0 reaches every weight, so that the optimizer steps as
    it would have, and other processes are not left waiting for this one's gradients.
    """
    advantages = inputs["advantages"]
    has_signal = (advantages != 0).view(len(advantages), -1).any(1)
    prompts = inputs["prompt_ids"].masked_fill(inputs["prompt_mask"] == 0, -1)
    _, prompt_of_row = prompts.unique(dim=0, return_inverse=True)
    rows = torch.isin(prompt_of_row, prompt_of_row[has_signal])
    if not rows.any():
        completions = inputs["completion_mask"].sum(1)
        length = inputs["prompt_mask"].sum(1) + completions
        rows[length.masked_fill(completions == 0, torch.iinfo(length.dtype).max).argmin()] = True
    return rows


SAMPLED = ("sampled_log_probs", "sampled_entropies")
"""What sampling has computed of completions, (B, C) each, beside TRL's tensors of the same rows."""


def with_sampled(output: Mapping[str, Any], sampled: SampledLogProbs, completions: Any) -> dict[str, Any]:
    """TRL's output of a generation with what sampling has computed of it, if these are its completions.

    They are not where an environment or a tool has added tokens, or where the distribution was cut by top-p
    or the like, which the loss does not know.
    """
    ids = output["completion_ids"]
    log_probs = torch.zeros(ids.shape)
    values_of = sampled.of(completions) if sampled.is_whole else None
    if "tool_mask" in output or len(completions) != len(ids) or values_of is None:
        return dict(output)
    for row, (tokens, values) in enumerate(zip(completions, values_of, strict=True)):
        if ids[row, : len(tokens)].tolist() != list(tokens):
            return dict(output)
        log_probs[row, : len(tokens)] = torch.tensor(values)
    entropies = torch.zeros(ids.shape)
    known = sampled.entropies()[:, : ids.size(1)]
    entropies[:, : known.size(1)] = known
    return {**output, **dict(zip(SAMPLED, (log_probs.to(ids.device), entropies.to(ids.device)), strict=True))}


def sampled_values(trainer: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...] | None:
    """Log-probabilities and entropies, (B, C) each and 0 where the mask is, that need not be computed again.

    None where the policy may have moved since they were sampled, or where the loss reads them: its entropy
    mask has a threshold that all rows decide, and old log-probabilities have to be of one computation.
    """
    step = trainer._step % (trainer.args.steps_per_generation * trainer.num_iterations)
    if (
        SAMPLED[0] not in inputs
        or step >= trainer.args.gradient_accumulation_steps
        or inputs.get("old_per_token_logps") is not None
        or trainer.top_entropy_quantile < 1
    ):
        return None
    return tuple(inputs[name] * inputs["completion_mask"] for name in SAMPLED)


def join_rows(
    rows: torch.Tensor, compute: Callable[[torch.Tensor, bool], tuple[torch.Tensor | None, ...]]
) -> tuple[torch.Tensor | None, ...]:
    """What `compute` gives for these rows (B,) with a graph and for the others without, as one batch.

    The rows with a graph come first: an autocast that surrounds both keeps the weights that it has rounded,
    and those which were rounded without a graph would pass no gradient on.
    """
    learnt, others = rows.nonzero()[:, 0], (~rows).nonzero()[:, 0]
    parts = [compute(learnt, True)]
    if len(others):
        with torch.no_grad():
            parts.append(compute(others, False))
    back = torch.cat([learnt, others]).argsort()
    return tuple(
        None if values[0] is None else torch.cat(values)[back] for values in zip(*parts, strict=True)
    )

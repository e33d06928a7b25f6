"""verl's loss with the curriculum's auxiliary samples beside it; runs on verl's workers."""

from __future__ import annotations

from typing import Any

import torch
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

AUXILIARY = "auxiliary_weights"
"""The field of a row: what multiplies the log-likelihood of its response; 0 for all but auxiliary samples."""


def ppo_loss_with_auxiliary(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
    """verl's `ppo_loss`, and minus the weighted log-likelihood of the auxiliary samples: METIS (9) and (10).

    Auxiliary samples are rows with a response and an empty response mask, so that they take no part in verl's
    losses, their denominators and their metrics. Workers' gradients are averaged: the sum over a mini-batch
    is multiplied by their number. `judge/loss` is (9) times lambda; what is added is divided by tokens as the
    policy's loss is.
    """
    loss, metrics = ppo_loss(config=config, model_output=model_output, data=data, dp_group=dp_group)
    if AUXILIARY not in data.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
        return loss, metrics
    weights = data[AUXILIARY]
    weights = (weights.values() if weights.is_nested else weights).reshape(-1, 1)
    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    lengths = data["responses"].offsets().diff()
    written = torch.arange(log_probs.shape[1], device=log_probs.device) < lengths[:, None]
    judge_loss = -(weights * log_probs * written).sum() * data["dp_size"]
    metrics["judge/loss"] = Metric(value=judge_loss.detach(), aggregation=AggregationType.SUM)
    divisor = tokens_divisor(
        config.loss_agg_mode,
        tokens=float(data["batch_num_tokens"]),
        rollouts=data["global_batch_size"],
        norm=config.loss_scale_factor or log_probs.shape[1],
    )
    return loss + judge_loss / divisor, metrics


def tokens_divisor(mode: str, *, tokens: float, rollouts: int, norm: float) -> float:
    """By what verl's loss divides a rollout's sum over tokens, in the mean over all tokens of a mini-batch.

    METIS' (2) and (9) are means over sequences of sums over tokens, "seq-mean-token-sum". The other modes
    divide these sums further, and the auxiliary loss is divided by the same number, so that lambda means what
    it means in (10) with every mode.

    Args:
        mode: `loss_agg_mode`.
        tokens, rollouts: T and R of a mini-batch, of all workers.
        norm: what "seq-mean-token-sum-norm" divides by.
    """
    per_token = {
        "seq-mean-token-sum": 1 / rollouts,
        "seq-mean-token-sum-norm": 1 / (rollouts * norm),
        "token-mean": 1 / max(tokens, 1),
        "seq-mean-token-mean": 1 / max(tokens, 1),
        "token-sum": 1.0,
    }
    return 1 / (rollouts * per_token[mode])

"""verl's loss with the curriculum's lessons beside it; runs on verl's workers."""

from __future__ import annotations

from typing import Any

import torch
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

LESSON = "lesson_weights"
"""The field of a row: what multiplies the log-likelihood of its response; 0 for all but lessons."""


def ppo_loss_with_lessons(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
    """verl's `ppo_loss`, and minus the weighted log-likelihood of the lessons: METIS (9) and (10).

    Lessons are rows with a response and an empty response mask, so that they take no part in verl's losses,
    their denominators and their metrics. Workers' gradients are averaged: the sum over a mini-batch is
    multiplied by their number.
    """
    loss, metrics = ppo_loss(config=config, model_output=model_output, data=data, dp_group=dp_group)
    if LESSON not in data.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
        return loss, metrics
    weights = data[LESSON]
    weights = (weights.values() if weights.is_nested else weights).reshape(-1, 1)
    log_probs = no_padding_2_padding(model_output["log_probs"], data)
    lengths = data["responses"].offsets().diff()
    written = torch.arange(log_probs.shape[1], device=log_probs.device) < lengths[:, None]
    judge_loss = -(weights * log_probs * written).sum() * data["dp_size"]
    metrics["judge/loss"] = Metric(value=judge_loss.detach(), aggregation=AggregationType.SUM)
    return loss + judge_loss, metrics

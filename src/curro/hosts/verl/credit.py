"""The curriculum's credit in place of verl's advantages, and the loss that knows auxiliary samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from curro.core.policy import tokens_divisor
from curro.core.verdicts import Credited
from curro.hosts.verl.replay import (
    ADVANTAGE,
    UNCREDITED,
    WEIGHT,
    parts_of,
    read_rows,
    write_rows,
)

Credit = Callable[[Credited], np.ndarray]
"""`Curriculum.credit`, of the P groups of a batch with a column for each session, 0 where it has no row."""


def write_credit(batch: Any, credit: Credit) -> None:
    """Write each trajectory's credit over its response tokens into verl's queue, as advantages and returns.

    Advantages and importance weights were tagged when the groups were observed. The credit depends on all
    groups of the batch, so it is computed only now.
    """
    masks = read_rows(batch.keys, "response_mask")
    credits = credit_of_rows(batch.keys, batch.tags, credit)
    rows = [value * mask.float() for value, mask in zip(credits, masks, strict=True)]
    write_rows(batch.keys, advantages=rows, returns=rows)


def withhold_credit(batch: Any) -> None:
    """Set verl's own advantages of what the curriculum does not credit to 0, in verl's queue."""
    keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if UNCREDITED in tag]
    if keys:
        write_rows(keys, advantages=[torch.zeros_like(row) for row in read_rows(keys, "advantages")])


def credit_of_rows(keys: Sequence[str], tags: Sequence[dict[str, Any]], credit: Credit) -> torch.Tensor:
    """The credit of every row, float32 (rows,); 0 for the rows that pad the batch.

    Args:
        keys: of the rows, as `curro.hosts.verl.replay.parts_of` reads them.
        tags: of the rows, with an advantage and a weight each.
        credit: `Curriculum.credit`, for the P groups of the batch.
    """
    # rows that pad have the tags of the rows that they were made from, so their flag has to be looked at
    sessions = {
        row: parts_of(key)[:2] for row, key in enumerate(keys) if not tags[row].get("is_padding", False)
    }
    row_of = {group: p for p, group in enumerate(dict.fromkeys(group for group, _ in sessions.values()))}
    groups = [row_of[group] for group, _ in sessions.values()]
    columns = [session for _, session in sessions.values()]
    advantages_PG = np.zeros((len(row_of), 1 + max(columns, default=0)))
    advantages_PG[groups, columns] = [tags[row][ADVANTAGE] for row in sessions]
    weights_P = np.zeros(len(row_of))
    weights_P[groups] = [tags[row][WEIGHT] for row in sessions]
    credit_rows = np.zeros(len(keys), np.float32)
    credit_rows[list(sessions)] = credit(Credited(advantages_PG, weights_P))[groups, columns]
    return torch.from_numpy(credit_rows)


AUXILIARY = "auxiliary_weights"
"""A row's field with the factor of its response's log-likelihood; 0 for all rows but auxiliary samples."""


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

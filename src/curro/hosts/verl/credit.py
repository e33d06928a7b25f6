"""The curriculum's credit in place of verl's advantages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding, response_to_nested

from curro.hosts.verl.replay import ADVANTAGE, WEIGHT, parts_of
from curro.policy import tokens_divisor


@dataclass(frozen=True)
class TaggedGroups:
    """What the tags of a batch tell of its groups, for `Curriculum.credit`.

    Attributes:
        advantages: float64 (P, S), by session; 0 where a session has no trajectory in the batch.
        weights: float64 (P,), importance weights at draw time.
    """

    advantages: np.ndarray
    weights: np.ndarray


Credit = Callable[[TaggedGroups], np.ndarray]


def write_credit(batch: Any, credit: Credit) -> None:
    """Spread each trajectory's credit over its response tokens, as advantages and returns.

    Its advantage and its group's importance weight came with its tags; what they come to is known only
    now, when the batch is put together.

    Args:
        batch: verl's meta data of the batch that is trained on.
        credit: `Curriculum.credit`.
    """
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask", "advantages"]
    )
    mask = data["response_mask"]
    spread = credit_of_rows(batch.keys, batch.tags, credit)[:, None] * mask.to_padded_tensor(0).to(
        torch.float32
    )
    nested = response_to_nested(spread, mask)
    fields = TensorDict({"advantages": nested, "returns": nested.clone()}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def credit_of_rows(keys: Sequence[str], tags: Sequence[dict[str, Any]], credit: Credit) -> torch.Tensor:
    """The credit of every row, float32 (rows,); 0 for rows that are there to fill up the batch."""
    # rows that fill up have the tags of the rows that they were made from, and groups of their own
    places = {
        row: parts_of(key)[:2] for row, key in enumerate(keys) if not tags[row].get("is_padding", False)
    }
    number_of = {group: p for p, group in enumerate(dict.fromkeys(group for group, _ in places.values()))}
    sessions = 1 + max((session for _, session in places.values()), default=0)
    groups = TaggedGroups(np.zeros((len(number_of), sessions)), np.zeros(len(number_of)))
    for row, (group, session) in places.items():
        p = number_of[group]
        groups.advantages[p, session], groups.weights[p] = tags[row][ADVANTAGE], tags[row][WEIGHT]
    credit_PS = credit(groups)
    of_row = np.zeros(len(keys), np.float32)
    for row, (group, session) in places.items():
        of_row[row] = credit_PS[number_of[group], session]
    return torch.from_numpy(of_row)


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

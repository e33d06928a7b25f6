"""The curriculum's credit in place of verl's advantages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.workers.utils.padding import response_to_nested

from curro.hosts.verl.replay import ADVANTAGE, WEIGHT
from curro.hosts.verl.tickets import parts_of


def write_credit(batch: Any, batch_weights: Callable[[np.ndarray], np.ndarray]) -> None:
    """Spread each trajectory's credit over its response tokens, as advantages and returns.

    Its advantage and its prompt's importance weight came with its tags; what the weights of a batch are in
    its loss is known only now, when the batch is put together.

    Args:
        batch: verl's meta data of the batch that is trained on.
        batch_weights: `Curriculum.batch_weights`.
    """
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask", "advantages"]
    )
    mask = data["response_mask"]
    credits = credits_of(batch.keys, batch.tags, batch_weights)
    spread = credits[:, None] * mask.to_padded_tensor(0).to(torch.float32)
    nested = response_to_nested(spread, mask)
    fields = TensorDict({"advantages": nested, "returns": nested.clone()}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def credits_of(
    keys: Sequence[str],
    tags: Sequence[dict[str, Any]],
    batch_weights: Callable[[np.ndarray], np.ndarray],
) -> torch.Tensor:
    """The credit of every row, float32 (rows,); 0 for rows that are there to fill up the batch."""
    groups = [parts_of(key)[0] for key in keys]
    weight_of = {
        group: tag[WEIGHT]
        for group, tag in zip(groups, tags, strict=True)
        if not tag.get("is_padding", False)
    }
    factors_P = batch_weights(np.array(list(weight_of.values())))
    factor_of = dict(zip(weight_of, factors_P.tolist(), strict=True))
    # rows that fill up have the tags of the rows that they were made from, and groups of their own
    return torch.tensor(
        [tag[ADVANTAGE] * factor_of.get(group, 0.0) for group, tag in zip(groups, tags, strict=True)]
    )

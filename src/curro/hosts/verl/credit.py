"""The curriculum's credit in place of verl's advantages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.workers.utils.padding import response_to_nested

from curro.hosts.verl.replay import CREDIT


def write_credit(batch: Any) -> None:
    """Spread each trajectory's credit over its response tokens, as advantages and returns.

    The credit of a trajectory, its advantage times its prompt's importance weight, came with its tags.
    """
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask", "advantages"]
    )
    mask = data["response_mask"]
    spread = credits_of(batch.tags)[:, None] * mask.to_padded_tensor(0).to(torch.float32)
    nested = response_to_nested(spread, mask)
    fields = TensorDict({"advantages": nested, "returns": nested.clone()}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def credits_of(tags: Sequence[dict[str, Any]]) -> torch.Tensor:
    """The credit of every row, float32 (rows,); 0 for rows that are there to fill up the batch."""
    return torch.tensor([0.0 if tag.get("is_padding", False) else tag[CREDIT] for tag in tags])

"""The curriculum's credit in place of verl's advantages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.workers.utils.padding import response_to_nested

from curro.hosts.verl.replay import ADVANTAGE, WEIGHT
from curro.hosts.verl.tickets import parts_of


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

"""What the curriculum wants the policy trained on besides the rollouts, as rows of verl's batch."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import (
    build_padding_position_ids,
    build_padding_routed_experts,
    construct_minimal_padding_template,
)
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from curro.hosts.verl.credit import AUXILIARY
from curro.policy import AuxiliarySamples


def add_auxiliary(
    batch: Any,
    auxiliary_samples: Sequence[AuxiliarySamples],
    *,
    ranks: int,
    mini_batches: int,
    divisor: int,
    end: int,
) -> Any:
    """The batch with auxiliary samples in every mini-batch of every worker, equally many.

    verl cuts a batch into a part for each of R workers, one after the other, and each part into M
    mini-batches, one optimizer step each. The J auxiliary samples are dealt out over these R x M places,
    neighbours to different ones, and scaled by M / J: so a step is trained on the mean of its share, and with
    one step a batch on exactly (9). Where an auxiliary sample is missing there is a row of weight 0, and more
    such rows where verl's micro-batches would not come out even.

    Args:
        batch: verl's meta data of a batch whose length R x M divides.
        divisor: of the rows at a place, rollouts and auxiliary samples together (`rows_divisor`).
        end: the token that ends a sequence, for rows without an auxiliary sample.
    """
    asked = [ids for part in auxiliary_samples for ids in part.prompt_ids]
    answered = [ids for part in auxiliary_samples for ids in part.completion_ids]
    scale = mini_batches / len(asked)
    weights_J = np.concatenate([part.advantages * part.weight * scale for part in auxiliary_samples])
    places = ranks * mini_batches
    count = auxiliary_rows(len(batch) // places, len(asked), places=places, divisor=divisor)
    source = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id)[0]
    blank, blank_tag = construct_minimal_padding_template(source, batch.tags[0], end)
    name = f"auxiliary{uuid.uuid4().hex}"
    rows, tags = [], []
    for j in range(count):
        row, tag = dict(blank), dict(blank_tag)
        row |= {"uid": name, AUXILIARY: torch.zeros(1)}
        if "session_id" in row:
            row["session_id"] = j
        if j < len(asked):
            row |= _sequence(row, asked[j], answered[j])
            row[AUXILIARY] = torch.tensor([weights_J[j]], dtype=torch.float32)
            lengths = len(asked[j]), len(answered[j])
            tag |= {"prompt_len": lengths[0], "response_len": lengths[1], "seq_len": sum(lengths)}
        rows.append(row)
        tags.append(tag)
    keys = [f"{name}_{j}_0" for j in range(count)]
    _put(batch, keys, rows, tags)
    return _dealt(batch, keys, tags, places)


def auxiliary_rows(size: int, auxiliary_samples: int, *, places: int, divisor: int) -> int:
    """How many rows hold the auxiliary samples, equally many at each place beside its `size` rollouts."""
    least = size + math.ceil(auxiliary_samples / places)
    return (math.ceil(least / divisor) * divisor - size) * places


def _sequence(blank: dict[str, Any], asked: Sequence[int], answered: Sequence[int]) -> dict[str, Any]:
    """The fields of a sequence that no part of verl's loss looks at."""
    prompts, responses = torch.tensor(asked), torch.tensor(answered)
    input_ids = torch.cat([prompts, responses])
    everything, nothing = torch.ones_like(input_ids), torch.zeros_like(responses)
    fields = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": input_ids,
        "attention_mask": everything,
        "position_ids": build_padding_position_ids(blank.get("position_ids"), everything),
        "response_mask": nothing,
        "loss_mask": nothing,
        "rm_scores": nothing.to(torch.float32),
        "rollout_log_probs": nothing.to(torch.float32),
    }
    experts = build_padding_routed_experts(blank.get("routed_experts"), len(input_ids))
    return fields if experts is None else fields | {"routed_experts": experts}


def _put(batch: Any, keys: list[str], rows: list[dict[str, Any]], tags: list[dict[str, Any]]) -> None:
    """Write the rows, and the weight 0 to the rows that were there: verl wants the same fields in all."""
    queue = batch.partition_id
    none = TensorDict({AUXILIARY: torch.zeros(len(batch), 1)}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=queue, fields=none)
    tq.kv_batch_put(keys=keys, partition_id=queue, fields=list_of_dict_to_tensordict(rows), tags=tags)


def _dealt(batch: Any, keys: list[str], tags: list[dict[str, Any]], places: int) -> Any:
    """The batch with every `places`-th auxiliary sample at the end of each of its equal parts."""
    size = len(batch) // places
    all_keys: list[str] = []
    all_tags: list[dict[str, Any]] = []
    for place in range(places):
        part = slice(place * size, (place + 1) * size)
        all_keys += [*batch.keys[part], *keys[place::places]]
        all_tags += [*batch.tags[part], *tags[place::places]]
    return KVBatchMeta(
        keys=all_keys,
        tags=all_tags,
        partition_id=batch.partition_id,
        fields=batch.fields,
        extra_info=batch.extra_info,
    )


class AuxiliaryWorkers:
    """The actor's workers for a batch with auxiliary samples: mini-batches are longer by their share.

    `global_batch_size`, by which verl divides sums over sequences, stays the number of rollouts.
    """

    def __init__(self, workers: Any, mini_batch: int) -> None:
        self.workers, self.mini_batch = workers, mini_batch

    def update_actor(self, batch: Any) -> Any:
        batch.extra_info["mini_batch_size"] = self.mini_batch
        return self.workers.update_actor(batch)


def rows_divisor(config: Any, *, ranks: int, mini_batches: int, ref_ranks: int | None = None) -> int:
    """What the number of a worker's rows in a mini-batch has to be divisible by.

    With `use_dynamic_bsz=False` verl cuts into micro-batches of a fixed size, and refuses a remainder: each
    mini-batch of a worker when it trains, all rows of a worker when it computes log-probabilities.

    Args:
        config: verl's.
        ranks, mini_batches: workers a batch is split over, and optimizer steps a batch.
        ref_ranks: workers of the reference policy, where it has weights of its own.
    """
    actor, rollout, ref = (config.actor_rollout_ref[name] for name in ("actor", "rollout", "ref"))
    divisor, places = 1, ranks * mini_batches
    if not actor.use_dynamic_bsz:
        divisor = actor.ppo_micro_batch_size_per_gpu
        divisor = math.lcm(divisor, _share(ranks * rollout.log_prob_micro_batch_size_per_gpu, places))
    if ref_ranks is not None and not ref.log_prob_use_dynamic_bsz:
        divisor = math.lcm(divisor, _share(ref_ranks * ref.log_prob_micro_batch_size_per_gpu, places))
    return divisor


def ranks_of(workers: Any, role: str) -> int:
    """How many parts verl splits a batch into for these workers."""
    ranks = workers._dispatch_info
    if role not in ranks:
        ranks[role] = workers._query_dispatch_info(role)
    return max(ranks[role]) + 1


def _share(divisor: int, places: int) -> int:
    """What equal parts are to be divisible by, so that so many of them are divisible by `divisor`."""
    return divisor // math.gcd(divisor, places)

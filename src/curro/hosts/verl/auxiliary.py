"""Auxiliary samples, on which a method trains the policy besides the rollouts, as rows of verl's batch."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

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

from curro.core.policy import AuxiliarySamples, join_auxiliary
from curro.hosts.verl.credit import AUXILIARY


def add_auxiliary(
    batch: Any,
    auxiliary_samples: Sequence[AuxiliarySamples],
    *,
    ranks: int,
    mini_batches: int,
    divisor: int,
    end: int,
) -> Any:
    """The batch with equally many auxiliary samples in every mini-batch of every worker.

    verl cuts a batch into a part for each of R workers, and each part into M mini-batches. The J auxiliary
    samples are dealt out over these R x M shares and scaled by M / J, so that a batch of one step is trained
    on METIS' equation (9) exactly. Shares that lack a sample have a row of weight 0 instead, and more such
    rows where verl's micro-batches would not come out even.

    Args:
        batch: verl's meta data of a batch whose length R x M divides.
        ranks, mini_batches: R and M.
        divisor: a divisor of the number of rows of a share, rollouts and auxiliary samples together
            (`rows_divisor`).
        end: the token that ends a sequence, for rows without an auxiliary sample.
    """
    prompts_J, completions_J, advantages_J, weights_J = join_auxiliary(auxiliary_samples)
    weights_J = advantages_J * weights_J * (mini_batches / len(prompts_J))
    shares = ranks * mini_batches
    count = auxiliary_rows(len(batch) // shares, len(prompts_J), shares=shares, divisor=divisor)
    source = tq.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id)[0]
    blank, blank_tag = construct_minimal_padding_template(source, batch.tags[0], end)
    name = f"auxiliary{uuid.uuid4().hex}"
    rows, tags = [], []
    for j in range(count):
        row, tag = dict(blank), dict(blank_tag)
        row |= {"uid": name, AUXILIARY: torch.zeros(1)}
        if "session_id" in row:
            row["session_id"] = j
        if j < len(prompts_J):
            row |= _sequence(row, prompts_J[j], completions_J[j])
            row[AUXILIARY] = torch.tensor([weights_J[j]], dtype=torch.float32)
            lengths = len(prompts_J[j]), len(completions_J[j])
            tag |= {"prompt_len": lengths[0], "response_len": lengths[1], "seq_len": sum(lengths)}
        rows.append(row)
        tags.append(tag)
    keys = [f"{name}_{j}_0" for j in range(count)]
    # the rollouts' rows get the weight 0: in verl all rows have the same fields
    zeros = TensorDict({AUXILIARY: torch.zeros(len(batch), 1)}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=zeros)
    fields = list_of_dict_to_tensordict(rows)
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields, tags=tags)
    return _dealt(batch, keys, tags, shares)


def auxiliary_rows(size: int, auxiliary_samples: int, *, shares: int, divisor: int) -> int:
    """How many rows hold the auxiliary samples, equally many in each share beside its `size` rollouts."""
    least = size + math.ceil(auxiliary_samples / shares)
    return (math.ceil(least / divisor) * divisor - size) * shares


def _sequence(
    blank: dict[str, Any], prompt_ids: Sequence[int], completion_ids: Sequence[int]
) -> dict[str, Any]:
    """The fields of a sequence; its masks are zero, so that verl's own loss does not count it."""
    prompts, responses = torch.tensor(prompt_ids), torch.tensor(completion_ids)
    input_ids = torch.cat([prompts, responses])
    ones, zeros = torch.ones_like(input_ids), torch.zeros_like(responses)
    fields = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": input_ids,
        "attention_mask": ones,
        "position_ids": build_padding_position_ids(blank.get("position_ids"), ones),
        "response_mask": zeros,
        "loss_mask": zeros,
        "rm_scores": zeros.to(torch.float32),
        "rollout_log_probs": zeros.to(torch.float32),
    }
    experts = build_padding_routed_experts(blank.get("routed_experts"), len(input_ids))
    return fields if experts is None else fields | {"routed_experts": experts}


def _dealt(batch: Any, keys: list[str], tags: list[dict[str, Any]], shares: int) -> Any:
    """The batch with every `shares`-th auxiliary sample at the end of each of its equal parts."""
    size = len(batch) // shares
    all_keys: list[str] = []
    all_tags: list[dict[str, Any]] = []
    for share in range(shares):
        part = slice(share * size, (share + 1) * size)
        all_keys += [*batch.keys[part], *keys[share::shares]]
        all_tags += [*batch.tags[part], *tags[share::shares]]
    return KVBatchMeta(
        keys=all_keys,
        tags=all_tags,
        partition_id=batch.partition_id,
        fields=batch.fields,
        extra_info=batch.extra_info,
    )


class ResizedWorkers:
    """The actor's workers for a batch whose mini-batches have another number of rows than verl expects.

    Args:
        workers: verl's worker group.
        rows: of an optimizer step, auxiliary rows and padding included.
        rollouts: of an optimizer step, by which verl divides sums over sequences.
    """

    def __init__(self, workers: Any, rows: int, rollouts: float) -> None:
        self.workers, self.rows, self.rollouts = workers, rows, rollouts

    def update_actor(self, batch: Any) -> Any:
        batch.extra_info |= {"mini_batch_size": self.rows, "global_batch_size": self.rollouts}
        return self.workers.update_actor(batch)


def rows_divisor(config: Any, *, ranks: int, mini_batches: int, ref_ranks: int | None = None) -> int:
    """What the number of a worker's rows in a mini-batch has to be divisible by.

    With `use_dynamic_bsz=False` verl cuts rows into micro-batches of a fixed size and refuses a remainder. It
    cuts each mini-batch of a worker in training, and all rows of a worker for log-probabilities.

    Args:
        config: verl's.
        ranks, mini_batches: the workers that a batch is split over, and the optimizer steps of a batch.
        ref_ranks: the workers of the reference policy, where it has weights of its own.
    """
    actor, rollout, ref = (config.actor_rollout_ref[name] for name in ("actor", "rollout", "ref"))
    divisor, shares = 1, ranks * mini_batches
    if not actor.use_dynamic_bsz:
        divisor = actor.ppo_micro_batch_size_per_gpu
        divisor = math.lcm(divisor, _share(ranks * rollout.log_prob_micro_batch_size_per_gpu, shares))
    if ref_ranks is not None and not ref.log_prob_use_dynamic_bsz:
        divisor = math.lcm(divisor, _share(ref_ranks * ref.log_prob_micro_batch_size_per_gpu, shares))
    return divisor


def ranks_of(workers: Any, role: str) -> int:
    """The number of parts into which verl splits a batch for the workers of this role."""
    ranks_of_role = workers._dispatch_info
    if role not in ranks_of_role:
        ranks_of_role[role] = workers._query_dispatch_info(role)
    return max(ranks_of_role[role]) + 1


def _share(divisor: int, shares: int) -> int:
    """What each of `shares` equal parts has to be divisible by, so that `divisor` divides their sum."""
    return divisor // math.gcd(divisor, shares)

"""How many rows verl's workers can cut into micro-batches."""

from __future__ import annotations

import math
from typing import Any


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

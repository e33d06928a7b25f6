"""Batches with auxiliary samples can be cut into micro-batches of a fixed size, by verl's own function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from setup_run import BATCH, SIZE, run
from simulation import cut

from curro.hosts.verl.auxiliary import auxiliary_rows, rows_divisor

METIS = ["+curro.selection.name=metis", "+curro.selection.max_tokens=16", "+curro.selection.candidates=3"]


def configuration_of(actor, log_prob, ref, *, dynamic=False):
    return OmegaConf.create(
        {
            "actor_rollout_ref": {
                "actor": {"use_dynamic_bsz": dynamic, "ppo_micro_batch_size_per_gpu": actor},
                "rollout": {"log_prob_micro_batch_size_per_gpu": log_prob},
                "ref": {"log_prob_use_dynamic_bsz": dynamic, "log_prob_micro_batch_size_per_gpu": ref},
            }
        }
    )


SMALL = st.integers(1, 5)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 90), st.sampled_from([1, 2, None]))
def test_every_pass_of_verl_comes_out_even(
    ranks, mini_batches, size, actor, log_prob, ref, auxiliary_samples, split
):
    """`split` workers of the reference for one of the actor; None: it has no weights of its own."""
    config = configuration_of(actor, log_prob, ref)
    ref_ranks = None if split is None else ranks * split
    divisor = rows_divisor(config, ranks=ranks, mini_batches=mini_batches, ref_ranks=ref_ranks)
    places = ranks * mini_batches
    made = auxiliary_rows(size, auxiliary_samples, shares=places, divisor=divisor)
    assert made >= auxiliary_samples
    assert made % places == 0
    rows = size * places + made
    cut(rows // mini_batches, ranks, actor)
    cut(rows, ranks, log_prob)
    if ref_ranks is not None:
        cut(rows, ref_ranks, ref)
    fewer = [made - places * less for less in range(1, divisor + 1)]
    assert all(number < auxiliary_samples or (size + number // places) % divisor for number in fewer)


def test_micro_batches_of_a_number_of_tokens_need_no_rows_more():
    config = configuration_of(None, None, None, dynamic=True)
    assert rows_divisor(config, ranks=4, mini_batches=2, ref_ranks=4) == 1


@pytest.mark.parametrize(
    ("ranks", "mini", "micro", "log_prob"), [(1, 4, 16, 16), (2, 2, 4, 8), (1, 2, 1, 16)]
)
def test_a_run_with_auxiliary_samples_is_cut_into_micro_batches(tmp_path, ranks, mini, micro, log_prob):
    done = run(
        tmp_path / "out", *METIS, f"trainer.n_gpus_per_node={ranks}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={mini}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={log_prob}", steps=3, ranks=ranks,
    )  # fmt: skip
    updates = done.trainer.actor_rollout_wg.updates
    assert [len(update["rollouts"]) for update in updates] == [mini * SIZE] * (3 * BATCH // mini)
    assert sum(len(update["auxiliary_samples"]) for update in updates) == 3 * BATCH

"""verl's mode separate_async with a curriculum: a step is several updates, on a part of its batch each."""

from __future__ import annotations

import numpy as np
import pytest
from setup_run import BATCH, run

from curro.errors import ConfigError

SEPARATE = [
    "trainer.v1.trainer_mode=curro_separate_async",
    "trainer.v1.separate_async.parameter_sync_step=2",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={BATCH // 2}",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
]


def trained(done) -> list[set[str]]:
    """The groups of every update."""
    return [{uid for uid, _ in update["rollouts"]} for update in done.trainer.actor_rollout_wg.updates]


def test_every_group_is_trained_on_once_and_a_resumed_run_goes_on_with_its_queue(tmp_path):
    options = [*SEPARATE, "+curro.selection=prioritized-replay", "trainer.save_freq=3"]
    first = run(tmp_path / "out", *options, steps=3)
    resumed = run(tmp_path / "out", *options, steps=5)
    updates = trained(first) + trained(resumed)
    assert [len(groups) for groups in updates] == [BATCH // 2] * 10
    assert len(set().union(*updates)) == 5 * BATCH
    # a batch of warm-up: one is always ahead; dropped is what the batch has had already
    assert resumed.metrics["selected"] - resumed.metrics["dropped"] == 6 * BATCH
    assert resumed.metrics["observed"] + resumed.metrics["in_flight"] == 6 * BATCH
    assert resumed.trainer.standalone_checkpoint_manager.steps == [3, 4, 5]


def test_filling_is_exact_and_failed_groups_are_replaced(tmp_path):
    credited = ["+curro.admission=signal", "+curro.advantage=smoothed"]
    done = run(tmp_path / "out", *SEPARATE, *credited, steps=4, fail={5: 1, 9: 2, 12: 1, 14: 2})
    assert [len(groups) for groups in trained(done)] == [BATCH // 2] * 8
    for update in done.trainer.actor_rollout_wg.updates:
        for uid in {uid for uid, _ in update["rollouts"]}:
            assert np.var(done.engine.rewards[uid]) > 0
            given = {round(advantage, 6) for name, advantage in update["rollouts"] if name == uid}
            assert len(given) == 2
    metrics = done.metrics
    assert metrics["selected"] == metrics["observed"] + metrics["dropped"] + metrics["in_flight"]


def test_metis_judgments_are_trained_on_once(tmp_path):
    metis = ["+curro.selection.name=metis", "+curro.selection.max_tokens=16", "+curro.selection.candidates=3"]
    done = run(tmp_path / "out", *SEPARATE, *metis, steps=3)
    taught = [
        prompt
        for update in done.trainer.actor_rollout_wg.updates
        for prompt, *_ in update["auxiliary_samples"]
    ]
    assert len(taught) == done.metrics["observed"] >= 3 * BATCH


def test_gpus_that_are_lent_out_between_the_steps(tmp_path):
    switch = "trainer.v1.separate_async.hybrid_rollout.enable_switch"
    with pytest.raises(ConfigError, match=f"set {switch}=False"):
        run(tmp_path / "out", *SEPARATE, f"{switch}=True")
